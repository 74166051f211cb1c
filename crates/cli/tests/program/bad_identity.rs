//! Invalid credentials. Each is refused in the dialect of its request, does not turn its caller into a guest, causes no
//! model call and no cost, and no secret appears in a response or a log.

use crate::running::{KEY, Running, scratch_dir, seawall};
use crate::signing::{Issuer, claims, header, seconds, signed, stamp, unsigned, with_secret};
use anyhow::Context as _;
use seawall_testkit::HttpReply;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[derive(Clone, Copy)]
enum Words {
    Anthropic,
    Openai,
    Bedrock,
    Chat,
}

const CHAT: &str = r#"{"message":"what next?"}"#;
const MESSAGES: &str = r#"{"model":"manga","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
const CONVERSE: &str =
    r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{"maxTokens":9}}"#;
const INVOKE: &str = r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

/// Every endpoint.
const WAYS_IN: [(&str, Words, &str); 7] = [
    ("/v1/messages", Words::Anthropic, MESSAGES),
    ("/v1/chat/completions", Words::Openai, MESSAGES),
    ("/model/manga/invoke", Words::Bedrock, INVOKE),
    ("/model/manga/invoke-with-response-stream", Words::Bedrock, INVOKE),
    ("/model/manga/converse", Words::Bedrock, CONVERSE),
    ("/model/manga/converse-stream", Words::Bedrock, CONVERSE),
    ("/chat", Words::Chat, CHAT),
];

/// Whether this is the dialect's response to an unauthenticated request.
fn is_refused(words: Words, answer: &HttpReply) -> bool {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match words {
        Words::Anthropic => answer.status == 401 && body["error"]["type"] == "authentication_error",
        Words::Openai => answer.status == 401 && body["error"]["type"] == "invalid_request_error",
        Words::Bedrock => {
            answer.status == 403 && answer.header("x-amzn-errortype") == Some("UnrecognizedClientException")
        }
        Words::Chat => answer.status == 401 && body["code"] == "UNAUTHENTICATED",
    }
}

fn bearer(proof: &str) -> String {
    format!("authorization: Bearer {proof}\r\n")
}

fn issued(directory: &Path, arguments: &[&str]) -> anyhow::Result<Value> {
    let directory = directory.to_string_lossy();
    let output = seawall(&[&["key"], arguments, &["--json", "--data-dir", &directory]].concat()).output()?;
    anyhow::ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A gateway with every kind of credential configured, and the means to make valid and invalid ones.
struct Shop {
    model: Running,
    gateway: Running,
    issuer: Issuer,
    /// A key, and an access key id with its secret: one valid and one revoked of each.
    keys: [String; 2],
    pairs: [(String, String); 2],
    log: std::path::PathBuf,
}

impl Shop {
    fn new(test: &str) -> anyhow::Result<Self> {
        let state = scratch_dir(&format!("{test}-state"))?;
        let issuer = Issuer::new()?;
        let list = crate::running::file(
            &format!("{test}-keys.json"),
            &json!({ "keys": [issuer.entry()?] }).to_string(),
        )?;
        let log = crate::running::file(&format!("{test}-log.txt"), "")?;
        let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
        let key = |name: &str| text(&issued(&state, &["create", name, "--tier", "prime"])?["key"]);
        let pair = |name: &str| {
            let made = issued(&state, &["create", name, "--tier", "prime", "--aws"])?;
            Ok::<_, anyhow::Error>((
                text(&made["aws"]["access_key_id"])?,
                text(&made["aws"]["secret_access_key"])?,
            ))
        };
        let (keys, pairs) = ([key("good")?, key("bad")?], [pair("good pair")?, pair("bad pair")?]);
        for name in ["bad", "bad pair"] {
            issued(&state, &["revoke", name])?;
        }
        let more = format!(
            "callers.issuers.shop = {{ issuer = \"{}\", audience = [\"{}\"], algorithms = [\"RS256\"], jwks = 'file:{}', leeway = \"2s\" }}\n{}",
            crate::signing::ISSUER,
            crate::signing::AUDIENCE,
            list.display(),
            crate::requests::BY_DAY,
        );
        let model = Running::model(test, "[]")?;
        let gateway = Running::gateway_with(test, &model.url, ["instant", "instant"], &more, |settings| {
            let store = format!("store = {{ kind = \"embedded\", data_dir = '{}' }}", state.display());
            settings
                .replace("store.kind = \"memory\"", &store)
                .replace("access_log = \"none\"", &format!("access_log = '{}'", log.display()))
        })?;
        Ok(Self { model, gateway, issuer, keys, pairs, log })
    }

    /// Sends this credential to every endpoint. Returns the problems of the responses.
    fn problems(&self, name: &str, headers: &str, secrets: &[&str]) -> anyhow::Result<Vec<String>> {
        let mut problems = Vec::new();
        for (path, words, body) in WAYS_IN {
            let answer =
                self.gateway.send("POST", path, headers, body.as_bytes()).context(name.to_owned())?;
            let shown = format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
            if !is_refused(words, &answer) {
                problems.push(format!("{name} at {path}: {shown}"));
            }
            if answer.header("set-cookie").is_some() || secrets.iter().any(|secret| shown.contains(secret)) {
                problems.push(format!("{name} at {path} receives too much detail: {shown}"));
            }
        }
        Ok(problems)
    }

    /// Checks that no model was called, nothing was charged, nothing broke, and no secret was logged.
    fn is_unharmed(&self, secrets: &[&str]) -> anyhow::Result<()> {
        assert_eq!(self.model.calls()?.len(), 0);
        assert_eq!(self.gateway.counter("seawall_cost_usd_total")?, 0);
        assert_eq!(self.gateway.counter("seawall_attempts_total")?, 0);
        let errors = self.gateway.errors()?;
        assert!(!errors.contains("panicked"), "{errors}");
        let log = fs::read_to_string(&self.log)?;
        let requests = self.gateway.operators("/admin/requests?limit=1000")?.to_string();
        for secret in secrets {
            for (place, text) in [("errors", &errors), ("log", &log), ("requests", &requests)] {
                assert!(!text.contains(secret), "{secret:?} is in the {place}");
            }
        }
        Ok(())
    }
}

/// Invalid tokens, each with a name.
fn bad_tokens(issuer: &Issuer) -> anyhow::Result<Vec<(String, String)>> {
    let good = claims().to_string();
    let mut bad = Vec::new();
    for none in ["none", "None", "nOnE", "NONE"] {
        let header = json!({ "alg": none, "kid": "first" }).to_string();
        bad.push((format!("alg {none}, unsigned"), format!("{}.", unsigned(&header, &good))));
        bad.push((format!("alg {none}, signed"), issuer.sign(&header, &good)?));
    }
    for (number, secret) in issuer.public_forms()?.iter().enumerate() {
        let header = json!({ "alg": "HS256", "kid": "first" }).to_string();
        bad.push((format!("the public key as a secret, form {number}"), with_secret(secret, &header, &good)));
    }
    let long = "k".repeat(6_000);
    for kid in ["../../dev/null", "first' OR '1'='1", "first\0", "first\r\nx: y", "/etc/passwd", "", &long] {
        let header = json!({ "alg": "RS256", "kid": kid }).to_string();
        let shown: String = kid.chars().take(20).collect();
        bad.push((format!("kid {shown:?}"), issuer.sign(&header, &good)?));
    }
    let stranger = Issuer::new()?;
    bad.push(("somebody else's signature".to_owned(), stranger.token(&claims())?));
    for (name, value) in [
        ("jwk", stranger.entry()?),
        ("jku", json!("http://127.0.0.1:9/keys")),
        ("x5u", json!("http://169.254.169.254/latest")),
        ("x5c", json!(["MII"])),
        ("crit", json!(["exp"])),
    ] {
        let mut brings = header();
        brings[name] = value;
        bad.push((format!("a header with {name}"), stranger.sign(&brings.to_string(), &good)?));
        bad.push((format!("a true signature and {name}"), issuer.sign(&brings.to_string(), &good)?));
    }
    for (name, value) in [
        ("exp", json!(seconds() - 4)),
        ("exp", json!("soon")),
        ("exp", json!((seconds() + 600).to_string())),
        ("exp", json!(-1)),
        ("exp", Value::Null),
        ("nbf", json!(seconds() + 60)),
        ("nbf", json!("now")),
        ("aud", json!("another shop")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("iss", json!("https://login.example.com")),
        ("iss", json!("https://evil.example.com/")),
        ("sub", Value::Null),
        ("sub", json!("")),
    ] {
        let mut changed = claims();
        changed[name] = value.clone();
        bad.push((format!("{name} {value}"), issuer.token(&changed)?));
    }
    for name in ["exp", "aud", "iss", "sub"] {
        let mut less = claims();
        less.as_object_mut().context("no object")?.remove(name);
        bad.push((format!("no {name}"), issuer.token(&less)?));
    }
    let header = header().to_string();
    let twice = good.replacen('{', r#"{"exp":1,"#, 1);
    // Taken from the claims as they were made: a second later they would differ.
    let ends = serde_json::from_str::<Value>(&good)?["exp"].to_string();
    let endless = good.replace(&format!("\"exp\":{ends}"), "\"exp\":1e309");
    assert_ne!(endless, good);
    for (name, claims) in
        [("a claim twice", twice), ("exp without end", endless), ("no claims", "[]".to_owned())]
    {
        bad.push((name.to_owned(), issuer.sign(&header, &claims)?));
    }
    let token = issuer.token(&claims())?;
    bad.push(("half a signature".to_owned(), token[..token.len() - 100].to_owned()));
    bad.push(("one more part".to_owned(), format!("{token}.x")));
    Ok(bad)
}

#[test]
fn an_invalid_token_is_rejected_on_every_face() -> anyhow::Result<()> {
    let shop = Shop::new("bad-tokens")?;
    let (mut problems, mut secrets) = (Vec::new(), Vec::new());
    let bad = bad_tokens(&shop.issuer)?;
    for (name, token) in &bad {
        let proof = token.split('.').max_by_key(|part| part.len()).unwrap_or_default();
        secrets.push(proof.get(..40).unwrap_or(proof));
        problems.extend(shop.problems(name, &bearer(token), &[proof])?);
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    shop.is_unharmed(&secrets)?;
    let refused = shop.gateway.counter("seawall_requests_total{outcome=\"rejected\"}")?;
    assert_eq!(refused, (bad.len() * WAYS_IN.len()) as u64);
    // A valid token is accepted everywhere, with the tier of its issuer and no more.
    let token = shop.issuer.token(&claims())?;
    for (path, _, body) in WAYS_IN {
        let answer = shop.gateway.send("POST", path, &bearer(&token), body.as_bytes())?;
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
    let record = &shop.gateway.requests(1)?[0];
    assert_eq!(record["tier"], "standard", "{record}");
    Ok(())
}

#[test]
fn an_invalid_key_or_signature_is_rejected_on_every_face() -> anyhow::Result<()> {
    let shop = Shop::new("bad-keys")?;
    let [good, revoked] = &shop.keys;
    let [(id, secret), (old_id, old_secret)] = &shop.pairs;
    let wrong = format!("{}x", &good[..good.len() - 1]);
    let long = "k".repeat(20_000);
    let key = |key: &str| format!("x-api-key: {key}\r\n");
    let mut problems = Vec::new();
    let secrets = [good, revoked, &wrong, KEY, secret, old_secret, "dXNlcjpwYXNz", "kkkkkkkkkkkkkkkkkkkk"];
    for (name, headers) in [
        ("a key that was taken back", key(revoked)),
        ("a key with another end", key(&wrong)),
        ("a key that nobody has", key("sk-nobody-0123456789abcdef")),
        ("a key that is too long", key(&long)),
        ("a key of nothing", key("")),
        ("a key in two words", key(&format!("{KEY} {KEY}"))),
        ("two keys", key(KEY) + &key(good)),
        ("the same key twice", key(KEY) + &key(KEY)),
        ("two kinds of proof", key(KEY) + &bearer(good)),
        ("two authorizations", bearer(good) + &bearer(KEY)),
        ("the same authorization twice", bearer(good) + &bearer(good)),
        ("another scheme", "authorization: Basic dXNlcjpwYXNz\r\n".to_owned()),
        ("a scheme alone", "authorization: Bearer\r\n".to_owned()),
        ("two bearers in one", bearer(&format!("{good}, Bearer {KEY}"))),
        ("a revoked key as a bearer", bearer(revoked)),
        (
            "a key that is no text",
            "x-api-key: \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\r\n".to_owned(),
        ),
        ("an access key id as a key", key(id)),
        ("the id of a key", bearer(&good[..19])),
    ] {
        problems.extend(shop.problems(name, &headers, &secrets)?);
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));

    let at = stamp(seconds());
    for (path, words, body) in WAYS_IN {
        let proof = |id: &str, secret: &str, at: &str| signed(id, secret, at, path, body.as_bytes());
        let right = proof(id, secret, &at);
        let (start, _) = right.rsplit_once('=').context("no signature")?;
        let forged = format!("{start}={}\r\n", "0".repeat(64));
        for (name, headers) in [
            ("a wrong signature", forged),
            ("somebody else's secret", proof(id, old_secret, &at)),
            ("a pair that was taken back", proof(old_id, old_secret, &at)),
            ("a pair that nobody has", proof("SWAKAAAAAAAAAAAAAAAA", secret, &at)),
            ("a vendor's own key", proof("AKIAIOSFODNN7EXAMPLE", secret, &at)),
            ("a secret of nothing", proof(id, "", &at)),
            ("of long ago", proof(id, secret, &stamp(seconds() - 400))),
            ("of later", proof(id, secret, &stamp(seconds() + 400))),
            ("for another path", signed(id, secret, &at, "/model/other/converse", body.as_bytes())),
            ("for another body", signed(id, secret, &at, path, b"{}")),
            ("for another service", right.replace("/bedrock/", "/s3/")),
            ("another date", right.replacen(&at, &stamp(seconds() + 60), 1)),
            ("without a host", right.replace("SignedHeaders=host;", "SignedHeaders=")),
        ] {
            let answer = shop.gateway.send("POST", path, &headers, body.as_bytes())?;
            let shown = format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
            if !is_refused(words, &answer) || secrets.iter().any(|secret| shown.contains(secret)) {
                problems.push(format!("{name} at {path}: {shown}"));
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    shop.is_unharmed(&secrets)?;
    // Valid credentials are accepted everywhere.
    for (path, _, body) in WAYS_IN {
        for headers in [signed(id, secret, &at, path, body.as_bytes()), key(good), bearer(good), key(KEY)] {
            let answer = shop.gateway.send("POST", path, &headers, body.as_bytes())?;
            assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        }
    }
    Ok(())
}

#[test]
fn a_credential_in_the_query_is_refused_everywhere_and_never_written_down() -> anyhow::Result<()> {
    let shop = Shop::new("bad-address")?;
    let [good, _] = &shop.keys;
    let (id, _) = &shop.pairs[0];
    let token = shop.issuer.token(&claims())?;
    let signature = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
    let presigned = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={id}%2F20260101%2Fus-east-1%2Fbedrock%2Faws4_request\
         &X-Amz-Date=20260101T000000Z&X-Amz-SignedHeaders=host&X-Amz-Signature={signature}"
    );
    let named = ["key", "api_key", "api-key", "apikey", "x-api-key", "access_token", "API%5FKEY"];
    let mut queries: Vec<(String, &str)> = vec![(presigned, "authorization")];
    for secret in [good, &token] {
        queries.extend(named.iter().map(|name| (format!("beta=true&{name}={secret}"), "x-api-key")));
    }
    let mut problems = Vec::new();
    for (query, belongs) in &queries {
        for (path, words, body) in WAYS_IN {
            for headers in [String::new(), bearer(good)] {
                let path = format!("{path}?{query}");
                let answer = shop.gateway.send("POST", &path, &headers, body.as_bytes())?;
                let shown = format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
                if !is_refused(words, &answer)
                    || !shown.contains(belongs)
                    || [good, &token, id, signature].iter().any(|secret| shown.contains(*secret))
                {
                    problems.push(format!("{path}: {shown}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    shop.is_unharmed(&[good, &token, id, signature])?;
    // Other query parameters are ignored.
    let answer =
        shop.gateway.send("POST", "/v1/messages?beta=true&keys=1", &bearer(good), MESSAGES.as_bytes())?;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

#[test]
fn the_admin_api_is_not_served_on_the_callers_listener() -> anyhow::Result<()> {
    let shop = Shop::new("bad-admin")?;
    for path in [
        "/admin/status",
        "/admin/keys",
        "//admin/status",
        "/%2e%2e/admin/status",
        "/v1/../admin/status",
        "/v1/messages/../../admin/keys",
        "/admin%2Fstatus",
        "/ADMIN/status",
        "/admin/faults",
        "/admin",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            for headers in ["", "x-http-method-override: GET\r\n", &format!("x-api-key: {KEY}\r\n")] {
                let answer = shop.gateway.send(method, path, headers, b"")?;
                assert_eq!(answer.status, 404, "{method} {path}: {}", answer.head);
                assert!(!String::from_utf8_lossy(&answer.body).contains("uptime"), "{path}");
            }
        }
    }
    // The method cannot be overridden.
    let answer =
        shop.gateway.send("GET", "/v1/messages", "x-http-method-override: POST\r\n", MESSAGES.as_bytes())?;
    assert_eq!(answer.status, 405);
    shop.is_unharmed(&[KEY])
}
