//! STS and SNS: forms in, XML out.

use super::signature::SignedScope;
use super::state::{FakeCredentials, FakeNotice, FakeState};
use super::{FakeResponse, Refusal, response};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

type Form = BTreeMap<String, String>;

/// The fields of a form.
fn read_form(body: &[u8]) -> Form {
    let text = String::from_utf8_lossy(body).replace('+', " ");
    let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    text.split('&').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (decode(key), decode(value))).collect()
}

/// The operation that a form names.
pub(super) fn operation(body: &[u8]) -> String {
    read_form(body).remove("Action").unwrap_or_default()
}

pub(super) fn answer(state: &mut FakeState, scope: &SignedScope, body: &[u8]) -> Result<FakeResponse, Refusal> {
    let form = read_form(body);
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    match form.get("Action").map(String::as_str) {
        Some("GetCallerIdentity") => {
            let result = format!(
                "<Arn>arn:aws:iam::{0}:user/tester</Arn><UserId>U</UserId><Account>{0}</Account>",
                scope.account
            );
            Ok(xml("https://sts.amazonaws.com/doc/2011-06-15/", "GetCallerIdentity", &result))
        }
        Some("AssumeRole") => assume_role(state, &form),
        Some("Publish") => {
            if state.sinks_are_down {
                return Err(Refusal::new(503, "ServiceUnavailable", "the sink is down"));
            }
            let subject = field("Subject");
            let is_line = !subject.is_empty() && subject.len() < 100 && subject.bytes().all(|is| (32..127).contains(&is));
            if !is_line {
                return Err(Refusal::new(400, "InvalidParameter", "Subject"));
            }
            let notice = FakeNotice { topic: field("TopicArn"), subject, message: field("Message") };
            state.notices.push(notice);
            let result = "<MessageId>00000000-0000-4000-8000-000000000000</MessageId>";
            Ok(xml("http://sns.amazonaws.com/doc/2010-03-31/", "Publish", result))
        }
        _ => Err(Refusal::new(400, "InvalidAction", "the fake does not know this action")),
    }
}

fn assume_role(state: &mut FakeState, form: &Form) -> Result<FakeResponse, Refusal> {
    let denied = |message: &str| Refusal::new(403, "AccessDenied", message);
    let arn = form.get("RoleArn").cloned().unwrap_or_default();
    let required = state.roles.get(&arn).ok_or_else(|| denied("the role is unknown"))?;
    if required.is_some() && required.as_ref() != form.get("ExternalId") {
        return Err(denied("the external id is not the one that the role requires"));
    }
    let account = arn.split(':').nth(4).unwrap_or_default().to_owned();
    let number = state.credentials.len();
    let (key_id, secret, token) =
        (format!("ASIAFAKE{number:08}"), format!("secret-{number}"), format!("session-{number}"));
    let credentials =
        FakeCredentials { secret: secret.clone(), account, session_token: Some(token.clone()) };
    state.credentials.insert(key_id.clone(), credentials);
    let result = format!(
        "<AssumedRoleUser><AssumedRoleId>R:s</AssumedRoleId><Arn>{arn}</Arn></AssumedRoleUser><Credentials>\
         <AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
         <SessionToken>{token}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
    );
    Ok(xml("https://sts.amazonaws.com/doc/2011-06-15/", "AssumeRole", &result))
}

fn xml(namespace: &str, action: &str, result: &str) -> FakeResponse {
    let body = format!(
        "<{action}Response xmlns=\"{namespace}\"><{action}Result>{result}</{action}Result>\
         <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{action}Response>"
    );
    response(200, "text/xml", body)
}

pub(super) fn refuse(refusal: &Refusal) -> FakeResponse {
    let Refusal { status, code, message, .. } = refusal;
    let body = format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>\
         <RequestId>r</RequestId></ErrorResponse>"
    );
    response(*status, "text/xml", body)
}
