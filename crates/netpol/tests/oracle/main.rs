//! Differential tests: random clusters are evaluated by the engine and by a naive reference evaluator.
//!
//! The reference evaluator works on the JSON objects and scans all of them for each query. It shares no code with the
//! engine except the types of queries and results. Seeds are fixed; the environment variable `RHUMB_NETPOL_SEEDS`
//! multiplies their number. A failing script is minimized and printed as lines of JSON.

mod compare_verdicts;
mod engine_histories;
mod event_script;
mod generator;
mod generator_coverage;
mod lint;
mod node_rulesets;
mod reference_evaluator;
mod seeds;
mod static_clusters;
mod strict_ruleset_model;
