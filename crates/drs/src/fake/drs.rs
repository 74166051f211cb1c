//! The operations of DRS.

use super::signature::SignedScope;
use super::state::{FakeRegion, FakeSettings, FakeState};
use super::{FakeResponse, Refusal, response};
use crate::text::rfc3339;
use seawall_core::time::Now;
use seawall_core::waiting::{WaitingAcquireDecision, WaitingBucket};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Takes a token of the service's own rate limit.
pub(super) fn check_rate(state: &mut FakeState, scope: &SignedScope, now: Now) -> Result<(), Refusal> {
    let Some(rate) = state.settings.rate else { return Ok(()) };
    let region = state.region(&scope.account, &scope.region);
    let bucket = region.bucket.get_or_insert_with(|| WaitingBucket::new(rate, now.monotonic));
    match bucket.try_acquire(now.monotonic, 1) {
        WaitingAcquireDecision::Granted(_) => Ok(()),
        _ => Err(Refusal::new(429, "ThrottlingException", "Rate exceeded")),
    }
}

/// Executes an operation.
pub(super) fn execute(
    state: &mut FakeState,
    scope: &SignedScope,
    operation: &str,
    body: &[u8],
    now: Now,
) -> Result<FakeResponse, Refusal> {
    let invalid = |message: &str| Refusal::new(400, "ValidationException", message);
    let request: Value = serde_json::from_slice(body).map_err(|_| invalid("the body is not JSON"))?;
    let settings = state.settings;
    let region = state.region(&scope.account, &scope.region);
    advance_jobs(region, settings, now);
    let answer = match operation {
        "DescribeSourceServers" => {
            let ids = strings(&request["filters"]["sourceServerIDs"]);
            let is_wanted = |server: &Value| ids.is_empty() || has(&ids, &server["sourceServerID"]);
            (200, page(&region.servers, is_wanted, &request, settings.page_size)?)
        }
        "DescribeJobs" => {
            let ids = strings(&request["filters"]["jobIDs"]);
            let from = request["filters"]["fromDate"].as_str();
            let is_wanted = |job: &Value| {
                (ids.is_empty() || has(&ids, &job["jobID"]))
                    && from.is_none_or(|from| job["creationDateTime"].as_str().is_none_or(|at| at >= from))
            };
            (200, page(&region.jobs, is_wanted, &request, settings.page_size)?)
        }
        "DescribeRecoveryInstances" => {
            let ids = strings(&request["filters"]["sourceServerIDs"]);
            let is_wanted = |instance: &Value| ids.is_empty() || has(&ids, &instance["sourceServerID"]);
            (200, page(&region.instances, is_wanted, &request, settings.page_size)?)
        }
        "StartRecovery" => {
            let sources = request["sourceServers"].as_array().cloned().unwrap_or_default();
            if sources.is_empty() {
                return Err(invalid("sourceServers must not be empty"));
            }
            let is_drill = request["isDrill"].as_bool().unwrap_or(false);
            let servers = sources.iter().map(|source| {
                json!({ "sourceServerID": source["sourceServerID"], "launchStatus": "PENDING" })
            });
            let job = json!({
                "type": "LAUNCH",
                "initiatedBy": if is_drill { "START_DRILL" } else { "START_RECOVERY" },
                "participatingServers": servers.collect::<Vec<_>>(),
                "tags": request["tags"],
            });
            (202, json!({ "job": create_job(region, settings, job, now)? }))
        }
        "TerminateRecoveryInstances" => {
            let ids = strings(&request["recoveryInstanceIDs"]);
            let servers =
                ids.iter().map(|id| json!({ "recoveryInstanceID": id, "launchStatus": "PENDING" }));
            let job = json!({
                "type": "TERMINATE",
                "initiatedBy": "TERMINATE_RECOVERY_INSTANCES",
                "participatingServers": servers.collect::<Vec<_>>(),
            });
            (202, json!({ "job": create_job(region, settings, job, now)? }))
        }
        "GetLaunchConfiguration" | "UpdateLaunchConfiguration" => {
            let id = request["sourceServerID"].as_str().unwrap_or_default();
            if !region.servers.iter().any(|server| server["sourceServerID"] == id) {
                return Err(Refusal::new(404, "ResourceNotFoundException", "the server is unknown"));
            }
            let default = json!({ "sourceServerID": id, "launchDisposition": "STARTED", "copyTags": false });
            let configuration = region.launch_configurations.entry(id.to_owned()).or_insert(default);
            if operation == "UpdateLaunchConfiguration" {
                for (key, value) in request.as_object().into_iter().flatten() {
                    configuration[key] = value.clone();
                }
            }
            (200, configuration.clone())
        }
        _ => return Err(Refusal::new(404, "UnknownOperationException", "the fake does not know this operation")),
    };
    Ok(response(answer.0, "application/json", answer.1.to_string()))
}

pub(super) fn refuse(refusal: &Refusal) -> FakeResponse {
    let mut body = json!({ "message": refusal.message, "code": refusal.code });
    if refusal.code == "ServiceQuotaExceededException" {
        body["quotaCode"] = json!("L-FAKE");
    }
    let mut refused = response(refusal.status, "application/json", body.to_string());
    let headers = refused.headers_mut();
    headers.insert("x-amzn-errortype", hyper::header::HeaderValue::from_static(refusal.code));
    if let Some(seconds) = refusal.retry_after {
        headers.insert("retry-after", seconds.into());
    }
    refused
}

fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(ids: &BTreeSet<String>, id: &Value) -> bool {
    id.as_str().is_some_and(|id| ids.contains(id))
}

/// A page of the items, from the token of the request on. Tokens are positions.
fn page(
    items: &[Value],
    is_wanted: impl Fn(&Value) -> bool,
    request: &Value,
    largest: usize,
) -> Result<Value, Refusal> {
    let bad_token = || Refusal::new(400, "ValidationException", "nextToken is invalid");
    let start = match request["nextToken"].as_str() {
        Some(token) => token.strip_prefix("page-").and_then(|at| at.parse().ok()).ok_or_else(bad_token)?,
        None => 0_usize,
    };
    let asked = request["maxResults"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(largest);
    let size = asked.min(largest).max(1);
    let wanted: Vec<&Value> = items.iter().filter(|item| is_wanted(item)).collect();
    let shown: Vec<&Value> = wanted.iter().skip(start).take(size).copied().collect();
    let mut answer = json!({ "items": shown });
    if start + size < wanted.len() {
        answer["nextToken"] = json!(format!("page-{}", start + size));
    }
    Ok(answer)
}

fn create_job(
    region: &mut FakeRegion,
    settings: FakeSettings,
    mut job: Value,
    now: Now,
) -> Result<Value, Refusal> {
    if region.active_jobs() >= settings.max_jobs {
        let message = "Max concurrent jobs exceeded";
        return Err(Refusal::new(402, "ServiceQuotaExceededException", message));
    }
    job["jobID"] = json!(format!("drsjob-{:017}", region.number()));
    job["status"] = json!("PENDING");
    job["creationDateTime"] = json!(rfc3339(now.utc));
    region.jobs.push(job.clone());
    region.created.push(now.monotonic);
    Ok(job)
}

/// Moves jobs on as time passes.
fn advance_jobs(region: &mut FakeRegion, settings: FakeSettings, now: Now) {
    let Some((until_started, until_completed)) = settings.job_times else { return };
    let mut launched = Vec::new();
    for (job, created) in region.jobs.iter_mut().zip(&region.created) {
        let age = now.monotonic - *created;
        if job["status"] == "PENDING" && age >= until_started {
            job["status"] = json!("STARTED");
        }
        if job["status"] == "STARTED" && age >= until_started + until_completed {
            job["status"] = json!("COMPLETED");
            job["endDateTime"] = json!(rfc3339(now.utc));
            let (id, is_launch) = (job["jobID"].clone(), job["type"] == "LAUNCH");
            for server in job["participatingServers"].as_array_mut().into_iter().flatten() {
                // A server whose name says so fails.
                let fails = server["sourceServerID"].as_str().is_some_and(|name| name.contains("fail"));
                if fails {
                    server["launchStatus"] = json!("FAILED");
                } else if is_launch {
                    server["launchStatus"] = json!("LAUNCHED");
                    launched.push((id.clone(), server["sourceServerID"].clone()));
                } else {
                    server["launchStatus"] = json!("TERMINATED");
                    region.instances.retain(|is| is["recoveryInstanceID"] != server["recoveryInstanceID"]);
                }
            }
        }
    }
    for (job, server) in launched {
        let instance = format!("i-{:017}", region.number());
        region.instances.push(json!({ "recoveryInstanceID": instance, "sourceServerID": server, "jobID": job }));
    }
}
