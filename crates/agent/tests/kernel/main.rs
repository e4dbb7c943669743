//! Rules in real kernels: each test has network namespaces of its own. They need root, iproute2 and nft.

mod agents;
mod histories;
mod lab;
mod loading;
mod namespace;
mod others;
mod packets;
mod programs;
mod running;

// What happens to clusters in the tests of the engine happens to kernels here.
#[path = "../../../netpol/tests/oracle/dice.rs"]
#[allow(dead_code)]
mod dice;
#[path = "../../../netpol/tests/oracle/generator/mod.rs"]
#[allow(dead_code)]
mod generator;
#[path = "../../../netpol/tests/oracle/script.rs"]
#[allow(dead_code)]
mod script;
