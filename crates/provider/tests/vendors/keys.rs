//! Credential servers: STS, the container endpoint, the instance metadata service.

use crate::support::{around, listen, read_request, run};
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use seawall_core::failure::{FailureKind, Health};
use seawall_provider::{BedrockOptions, BedrockTarget, Client, CredentialOptions, Environment, Target as _};
use seawall_testkit::TestDirectory;
use seawall_wire::dialect::DialectId;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::time::SystemTime;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

type Variables = BTreeMap<&'static str, String>;

fn options(variables: Variables) -> CredentialOptions {
    CredentialOptions {
        region: "eu-west-1".to_owned(),
        role: None,
        external_id: None,
        tls: None,
        environment: Environment::from_fn(move |name| variables.get(name).cloned()),
    }
}

/// The credentials, or the error.
async fn keys(options: CredentialOptions) -> Result<Credentials, String> {
    let source = options.check(&around()).map_err(|error| error.to_string())?;
    source.provide_credentials().await.map_err(|error| format!("{error:?}"))
}

/// The requests made while `asking` runs, and its result. A request whose first line is in the list gets the body
/// beside it, any other a 404.
async fn beside<T>(
    listener: &TcpListener,
    says: &[(&str, &str)],
    asking: impl Future<Output = T>,
) -> (Vec<String>, T) {
    let mut heard = Vec::new();
    let serving = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let Some(request) = read_request(&mut stream).await else { continue };
            let line = request.lines().next().unwrap_or_default();
            let said = says.iter().find(|(asked, _)| line == format!("{asked} HTTP/1.1"));
            let (status, body) = said.map_or((404, "nothing"), |(_, body)| (200, *body));
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).await.unwrap();
            heard.push(request);
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = asking => outcome,
        () = serving => unreachable!("it serves for ever"),
    };
    (heard, outcome)
}

fn has(request: &str, header: &str) -> bool {
    request.lines().any(|line| line == header)
}

const ROLE_KEYS: &str = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA</AccessKeyId>\
    <SecretAccessKey>of the role</SecretAccessKey><SessionToken>session</SessionToken>\
    <Expiration>2026-07-01T01:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
const KEYS: &str = r#"{"Code":"Success","AccessKeyId":"ASIA","SecretAccessKey":"hush","Token":"session",
    "Expiration":"2026-07-01T01:00:00Z"}"#;

fn of(keys: &Credentials) -> (&str, &str, Option<&str>, Option<SystemTime>) {
    (keys.access_key_id(), keys.secret_access_key(), keys.session_token(), keys.expiry())
}

fn end() -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_782_867_600))
}

fn at(address: SocketAddr, more: &[(&'static str, &str)]) -> Variables {
    let own = [
        ("AWS_ENDPOINT_URL_STS", format!("http://{address}")),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{address}")),
    ];
    own.into_iter().chain(more.iter().map(|(name, value)| (*name, (*value).to_owned()))).collect()
}

/// A file in a directory that is removed on drop.
struct TokenFile(TestDirectory);

impl TokenFile {
    fn new(text: &str) -> Self {
        let directory = TestDirectory::new().unwrap();
        directory.write("token", text).unwrap();
        Self(directory)
    }

    fn path(&self) -> String {
        self.0.path().join("token").to_string_lossy().into_owned()
    }
}

#[test]
fn a_role_is_assumed_with_a_signed_request_and_an_external_id() {
    run(async {
        let (listener, address) = listen().await;
        let own = [("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "hush")];
        let mut wanted = options(at(address, &own));
        wanted.role = Some("arn:aws:iam::123456789012:role/harbour".to_owned());
        wanted.external_id = Some("pier 7".to_owned());
        let (heard, got) = beside(&listener, &[("POST /", ROLE_KEYS)], keys(wanted)).await;
        assert_eq!(of(&got.unwrap()), ("ASIA", "of the role", Some("session"), end()));
        let request = &heard[0];
        let seal = "authorization: AWS4-HMAC-SHA256 Credential=AKIA/20260701/eu-west-1/sts/aws4_request, \
                    SignedHeaders=content-type;host;x-amz-date, Signature=";
        assert!(request.lines().any(|line| line.starts_with(seal)), "{request}");
        let body = "Action=AssumeRole&Version=2011-06-15\
                    &RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fharbour&RoleSessionName=seawall\
                    &ExternalId=pier%207";
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1, body);
        assert!(has(request, "content-type: application/x-www-form-urlencoded; charset=utf-8"));
    });
}

#[test]
fn a_refused_role_is_no_key() {
    run(async {
        let (listener, address) = listen().await;
        let own = [("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "hush")];
        let mut wanted = options(at(address, &own));
        wanted.role = Some("arn:aws:iam::123456789012:role/harbour".to_owned());
        let (_, got) = beside(&listener, &[], keys(wanted.clone())).await;
        assert!(got.unwrap_err().contains("returned status 404"));

        // For a model call that is a configuration error of the gateway: nothing was sent, and the vendor is not
        // affected.
        let bedrock = BedrockOptions {
            region: "eu-west-1".to_owned(),
            model: "anthropic.claude-3-haiku-20240307-v1:0".to_owned(),
            converse: false,
            credentials: wanted.check(&around()).unwrap(),
            headers: vec![],
        };
        let client = Client::new(&crate::support::options(address), &around()).unwrap();
        let target = BedrockTarget::new(client, &bedrock).unwrap();
        let call = || target.call(crate::support::question(DialectId::BEDROCK_INVOKE, false));
        let asking = async { (call().await.err().unwrap(), call().await.err().unwrap()) };
        let (heard, (first, second)) = beside(&listener, &[], asking).await;
        assert_eq!(first.failure.kind, FailureKind::Unauthorized);
        assert_eq!(first.failure.kind.health(), Health::Unknown);
        assert_eq!(first, second);
        // The second call did not even request credentials: a source that has just failed is not retried at once.
        assert!(heard.len() == 1 && heard[0].starts_with("POST / "), "{heard:?}");
    });
}

#[test]
fn a_web_identity_takes_its_role_on_with_the_token_of_the_day() {
    run(async {
        let (listener, address) = listen().await;
        let file = TokenFile::new("to/ken\n");
        let path = file.path();
        let own = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", path.as_str()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("AWS_ROLE_SESSION_NAME", "pod"),
        ];
        let (heard, got) =
            beside(&listener, &[("POST /", ROLE_KEYS)], keys(options(at(address, &own)))).await;
        assert_eq!(of(&got.unwrap()).0, "ASIA");
        let (head, body) = heard[0].split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("authorization"), "{head}");
        let expected = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15\
                        &RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=pod&WebIdentityToken=to%2Fken";
        assert_eq!(body, expected);

        let missing = [("AWS_WEB_IDENTITY_TOKEN_FILE", path.as_str())];
        let (heard, got) = beside(&listener, &[], keys(options(at(address, &missing)))).await;
        assert!(got.unwrap_err().contains("AWS_ROLE_ARN is not set") && heard.is_empty());
        drop(file);
        let (heard, got) = beside(&listener, &[], keys(options(at(address, &own)))).await;
        assert!(got.unwrap_err().contains(&path) && heard.is_empty());
    });
}

#[test]
fn a_containers_keys_are_asked_for_with_its_token() {
    run(async {
        let (listener, address) = listen().await;
        let uri = format!("http://{address}/v1/credentials?id=7");
        let says = [("GET /v1/credentials?id=7", KEYS)];
        let file = TokenFile::new("of the file\n");
        let path = file.path();
        for (more, header) in [
            (vec![], None),
            (vec![("AWS_CONTAINER_AUTHORIZATION_TOKEN", "plain")], Some("authorization: plain")),
            (
                vec![
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "plain"),
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path.as_str()),
                ],
                Some("authorization: of the file"),
            ),
        ] {
            let own = [&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())][..], &more].concat();
            let (heard, got) = beside(&listener, &says, keys(options(at(address, &own)))).await;
            assert_eq!(of(&got.unwrap()), ("ASIA", "hush", Some("session"), end()));
            match header {
                Some(header) => assert!(has(&heard[0], header), "{}", heard[0]),
                None => assert!(!heard[0].contains("authorization"), "{}", heard[0]),
            }
        }
        // A container that should have credentials but has none is not skipped.
        let own = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())];
        let (heard, got) = beside(&listener, &[], keys(options(at(address, &own)))).await;
        assert!(got.unwrap_err().contains("container: the endpoint returned status 404") && heard.len() == 1);
    });
}

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

#[test]
fn a_machines_keys_are_asked_for_within_a_session() {
    run(async {
        let (listener, address) = listen().await;
        let (list, one) = (format!("GET {ROLES}"), format!("GET {ROLES}harbour"));
        let session = ("PUT /latest/api/token", "session of the machine");
        let says = [session, (&list, "harbour\nother\n"), (&one, KEYS)];
        let (heard, got) = beside(&listener, &says, keys(options(at(address, &[])))).await;
        assert_eq!(of(&got.unwrap()), ("ASIA", "hush", Some("session"), end()));
        assert_eq!(heard.len(), 3);
        assert!(has(&heard[0], "x-aws-ec2-metadata-token-ttl-seconds: 300"), "{}", heard[0]);
        for request in &heard[1..] {
            assert!(has(request, "x-aws-ec2-metadata-token: session of the machine"), "{request}");
        }
        // Without a session token nothing else is requested, and without a role there are no credentials.
        let (heard, got) = beside(&listener, &[], keys(options(at(address, &[])))).await;
        assert!(got.unwrap_err().contains("CredentialsNotLoaded") && heard.len() == 1);
        let (heard, got) = beside(&listener, &[session], keys(options(at(address, &[])))).await;
        assert!(got.unwrap_err().contains("has no IAM role") && heard.len() == 2);
        let (_, got) = beside(&listener, &[session, (&list, "\n")], keys(options(at(address, &[])))).await;
        assert!(got.unwrap_err().contains("has no IAM role"));
        let off = [("AWS_EC2_METADATA_DISABLED", "True")];
        let (heard, got) = beside(&listener, &says, keys(options(at(address, &off)))).await;
        assert!(got.unwrap_err().contains("AWS_EC2_METADATA_DISABLED") && heard.is_empty());
    });
}

#[test]
fn credential_sources_are_tried_in_the_default_order() {
    run(async {
        let (listener, address) = listen().await;
        let uri = format!("http://{address}/keys");
        let file = TokenFile::new("token");
        let path = file.path();
        let text = "[profile p]\naws_access_key_id=of profile\naws_secret_access_key=x";
        let config_file = TokenFile::new(text);
        let config = config_file.path();
        let all = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str()),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", path.as_str()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("AWS_CONFIG_FILE", config.as_str()),
            ("AWS_SHARED_CREDENTIALS_FILE", "no such file"),
            ("AWS_PROFILE", "p"),
            ("AWS_ACCESS_KEY_ID", "of environment"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
        ];
        let says = [("POST /", ROLE_KEYS), ("GET /keys", KEYS)];
        for (count, id, asked) in [
            (8, "of environment", None),
            (6, "of profile", None),
            (3, "ASIA", Some("POST / ")),
            (1, "ASIA", Some("GET /keys ")),
        ] {
            let (heard, got) = beside(&listener, &says, keys(options(at(address, &all[..count])))).await;
            assert_eq!(of(&got.unwrap()).0, id, "{count}");
            assert_eq!(heard.len(), usize::from(asked.is_some()));
            assert!(asked.is_none_or(|asked| heard[0].starts_with(asked)), "{heard:?}");
        }
    });
}

#[test]
fn what_makes_no_sense_is_told_before_anything_is_asked() {
    let refusal = |change: fn(&mut CredentialOptions)| {
        let mut wanted = options(Variables::new());
        change(&mut wanted);
        wanted.check(&around()).err().unwrap().to_string()
    };
    assert_eq!(refusal(|wanted| wanted.region.clear()), "region: \"\" is not a valid region name");
    let named = |wanted: &mut CredentialOptions| wanted.role = Some("harbour".to_owned());
    assert_eq!(refusal(named), "role_arn: \"harbour\" is not the ARN of a role");
    let spaced = |wanted: &mut CredentialOptions| wanted.role = Some("arn:aws:iam::1:role/a b".to_owned());
    assert_eq!(refusal(spaced), "role_arn: \"arn:aws:iam::1:role/a b\" is not the ARN of a role");
    let alone = |wanted: &mut CredentialOptions| wanted.external_id = Some("x".to_owned());
    assert_eq!(refusal(alone), "external_id: requires role_arn: it is sent when the role is assumed");
}
