//! The shop's assistant: what its chat messages are about, and what follows from that.
//!
//! `seawall-core` decides for any gateway and knows no shop. This crate knows one: its intents, its carts, its busy
//! evenings and the texts for its customers. It translates them into the neutral values that `core` decides on.
//!
//! | module | question it answers |
//! | --- | --- |
//! | [`intent`] | what a message is about, and what that implies for retrieval and the answer cache |
//! | [`router`] | the priority of a message, its models, and whether a prepared answer comes first |
//! | [`plan`] | which rungs a message may use, and why no more |
//! | [`fallback`] | what to tell a customer when there is no answer |
//! | [`reference`](mod@reference) | none: the pages of documentation that are made from these tables |

pub mod fallback;
pub mod intent;
pub mod plan;
pub mod reference;
pub mod router;
