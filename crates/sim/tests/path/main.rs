//! The request path on a virtual clock, against scripted targets.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod attempts;
#[cfg(test)]
mod availability;
#[cfg(test)]
mod balancing;
#[cfg(test)]
mod caller_directory;
#[cfg(test)]
mod callers;
#[cfg(test)]
mod callers_model;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod day;
#[cfg(test)]
mod declined;
#[cfg(test)]
mod events;
#[cfg(test)]
mod faces;
#[cfg(test)]
mod failed_targets;
#[cfg(test)]
mod floods;
#[cfg(test)]
mod hedging;
#[cfg(test)]
mod hidden;
#[cfg(test)]
mod hours;
#[cfg(test)]
mod models;
#[cfg(test)]
mod names;
#[cfg(test)]
mod output;
#[cfg(test)]
mod posture;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod references;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod served;
#[cfg(test)]
mod shop;
#[cfg(test)]
mod target;
#[cfg(test)]
mod thinking;
#[cfg(test)]
mod used;
#[cfg(test)]
mod waiting;
