//! A client of the fake on the virtual clock.

use crate::clock::VirtualClock;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http_body_util::BodyExt as _;
use seawall_drs::aws::{DrsClient, DrsConnection, DrsOptions, sdk_http_client};
use seawall_drs::fake::{FakeCloud, FakeSettings};
use seawall_drs::{
    AccountAccess, GuardEvent, GuardEventKind, GuardObserver, GuardSettings, RateBuckets, ThrottlerSettings,
};
use std::fmt;
use std::sync::{Arc, Mutex};

pub(crate) const ACCOUNT: &str = "111122223333";
pub(crate) const REGION: &str = "eu-west-1";
pub(crate) const KEY_ID: &str = "AKIAFAKE00000001";
pub(crate) const SECRET: &str = "a-secret-that-only-tests-know";

/// Holds the clock while a request is in flight.
struct HoldingClient {
    inner: SharedHttpClient,
    clock: VirtualClock,
}

struct HoldingConnector {
    inner: SharedHttpConnector,
    clock: VirtualClock,
}

impl fmt::Debug for HoldingClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HoldingClient")
    }
}

impl fmt::Debug for HoldingConnector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HoldingConnector")
    }
}

impl HttpClient for HoldingClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(HoldingConnector { inner, clock: self.clock.clone() })
    }
}

impl HttpConnector for HoldingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let in_flight = self.clock.hold();
        let sent = self.inner.call(request);
        HttpConnectorFuture::new(async move {
            let mut response = sent.await?;
            // The body is part of the flight.
            let body = std::mem::replace(response.body_mut(), SdkBody::empty());
            let body = body.collect().await.map_err(ConnectorError::io)?.to_bytes();
            *response.body_mut() = SdkBody::from(body);
            drop(in_flight);
            Ok(response)
        })
    }
}

/// Keeps every event.
#[derive(Default)]
pub(crate) struct EventRecorder(Mutex<Vec<GuardEvent>>);

impl EventRecorder {
    pub(crate) fn events(&self) -> Vec<GuardEvent> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, is_counted: impl Fn(&GuardEventKind) -> bool) -> usize {
        self.events().iter().filter(|event| is_counted(&event.kind)).count()
    }
}

impl GuardObserver for EventRecorder {
    fn observe(&self, event: &GuardEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// The fake, its clock, and what clients of it report.
pub(crate) struct TestCloud {
    pub clock: VirtualClock,
    pub fake: FakeCloud,
    pub buckets: RateBuckets<VirtualClock>,
    pub recorder: Arc<EventRecorder>,
}

impl TestCloud {
    pub(crate) fn start(settings: FakeSettings) -> Self {
        let clock = VirtualClock::new(7);
        let fake = FakeCloud::start(clock.clone(), settings).unwrap();
        fake.add_key(KEY_ID, SECRET, ACCOUNT);
        let buckets = RateBuckets::new(clock.clone());
        Self { clock, fake, buckets, recorder: Arc::default() }
    }

    pub(crate) fn run<T>(&self, test: impl Future<Output = T>) -> T {
        self.clock.run(test)
    }

    /// An SDK configuration with these keys.
    pub(crate) fn config(&self, key_id: &str, secret: &str) -> SdkConfig {
        let client = HoldingClient { inner: sdk_http_client(), clock: self.clock.clone() };
        sdk_config(&self.fake.url(), key_id, secret, SharedHttpClient::new(client))
    }

    pub(crate) fn options() -> DrsOptions {
        let access = AccountAccess { account_id: Some(ACCOUNT.to_owned()), ..AccountAccess::current() };
        DrsOptions { access, ..DrsOptions::new(REGION) }
    }

    pub(crate) async fn client(&self) -> DrsClient<VirtualClock> {
        self.client_with(GuardSettings::default(), ThrottlerSettings::default()).await
    }

    pub(crate) async fn client_with(
        &self,
        guard: GuardSettings,
        throttler: ThrottlerSettings,
    ) -> DrsClient<VirtualClock> {
        self.connect(DrsOptions { guard, throttler, ..Self::options() }).await
    }

    pub(crate) async fn connect(&self, options: DrsOptions) -> DrsClient<VirtualClock> {
        let connection = DrsConnection::with_config(self.config(KEY_ID, SECRET), options).await.unwrap();
        let recorder = Arc::clone(&self.recorder) as Arc<dyn GuardObserver>;
        connection.client(self.clock.clone(), &self.buckets, recorder).unwrap()
    }
}

pub(crate) fn sdk_config(url: &str, key_id: &str, secret: &str, client: SharedHttpClient) -> SdkConfig {
    let credentials = Credentials::new(key_id, secret, None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .http_client(client)
        .build()
}
