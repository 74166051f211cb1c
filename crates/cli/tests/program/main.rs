//! End-to-end tests of the `seawall` program: the real program on real ports, and the vendors' own clients.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod bad_identity;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bad_request;
#[cfg(test)]
mod bad_upstream;
#[cfg(test)]
mod bedrock;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod client;
#[cfg(test)]
mod client_answers;
#[cfg(test)]
mod client_errors;
#[cfg(test)]
mod client_faults;
#[cfg(test)]
mod config;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod diagnostics;
#[cfg(test)]
mod documentation;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod first_mile;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod floods;
#[cfg(test)]
mod frameworks;
#[cfg(test)]
mod full_disk;
mod guests;
mod heads;
#[cfg(test)]
mod http2;
mod key;
mod key_contracts;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod model;
#[cfg(test)]
mod openai_operations;
#[cfg(test)]
mod presets;
mod rejection_details;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod reload_edge_cases;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod response_headers;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod running;
#[cfg(test)]
mod scenarios_breaker;
#[cfg(test)]
mod scenarios_chat;
#[cfg(test)]
mod scenarios_limits;
#[cfg(test)]
mod scenarios_retry;
#[cfg(test)]
mod serve;
mod signing;
#[cfg(test)]
mod stalled_responses;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod target_keys;
#[cfg(test)]
mod through;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod unauthenticated;
#[cfg(all(test, not(feature = "aws")))]
mod without_aws;
