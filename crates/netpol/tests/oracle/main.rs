//! Random clusters, judged twice: by the engine, and by a second evaluator that knows no shortcuts.
//!
//! The evaluator reads objects as they are written and goes through all of them for each question. It shares no code
//! with the engine but the types of questions and answers. Seeds are fixed; `RHUMB_NETPOL_SEEDS` multiplies how many
//! are tried. A script that fails is made as short as it gets and printed as lines of JSON.

mod answers;
mod changes;
mod clusters;
mod coverage;
mod dice;
mod evaluator;
mod flaws;
mod generator;
mod kernel;
mod nodes;
mod script;
mod seeds;
