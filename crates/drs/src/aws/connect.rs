//! Connecting: credentials, an assumed role, and clients whose own retries are off.

use super::client::DrsClient;
use super::error::describe_sdk_error;
use super::sink::{CloudWatchSink, SnsSink};
use crate::account::{AccountAccess, AccountAccessError, SESSION_NAME};
use crate::bucket::{BucketKey, RateBuckets};
use crate::event::GuardObserver;
use crate::guard::ApiGuard;
use crate::preset::GuardSettings;
use crate::throttler::{JobThrottler, ThrottlerSettings};
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::retry::RetryConfig;
use seawall_core::runtime::Runtime;
use seawall_core::waiting::BucketConflict;
use std::sync::Arc;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// One attempt; the guard decides on the next.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// Where and how to call DRS.
#[derive(Clone, Debug)]
pub struct DrsOptions {
    /// The region.
    pub region: String,
    /// The account.
    pub access: AccountAccess,
    /// Rate, retries and pacing.
    pub guard: GuardSettings,
    /// When to wait for job capacity, and how long.
    pub throttler: ThrottlerSettings,
}

impl DrsOptions {
    /// The current account in this region, with default settings.
    #[must_use]
    pub fn new(region: impl Into<String>) -> Self {
        Self {
            region: region.into(),
            access: AccountAccess::current(),
            guard: GuardSettings::default(),
            throttler: ThrottlerSettings::default(),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The region is not a region.
    #[error("{0:?} is not a region: use a name such as eu-west-1")]
    Region(String),
    /// The account access is invalid.
    #[error(transparent)]
    Access(#[from] AccountAccessError),
    /// The bucket of the account and region exists with another rate.
    #[error(transparent)]
    Conflict(#[from] BucketConflict),
    /// The account of the credentials could not be read.
    #[error("the account of the credentials is unknown ({0}): check the credentials, or name the account")]
    UnknownAccount(String),
}

/// The HTTP client of all SDK clients: rustls with aws-lc-rs.
#[must_use]
pub fn sdk_http_client() -> SharedHttpClient {
    Builder::new().tls_provider(tls::Provider::Rustls(CryptoMode::AwsLc)).build_https()
}

/// SDK clients for one account and region. All their retries are off.
#[derive(Clone, Debug)]
pub struct DrsConnection {
    config: SdkConfig,
    account: String,
    options: DrsOptions,
}

impl DrsConnection {
    /// Reads credentials from the environment (variables, profiles, roles of the machine or container), assumes the
    /// role of another account if there is one, and reads the account's id if it was not given.
    ///
    /// The SDK's own variables apply, such as `AWS_PROFILE` and `AWS_ENDPOINT_URL_DRS`.
    pub async fn open(options: DrsOptions) -> Result<Self, ConnectError> {
        check_region(&options.region)?;
        let role_arn = options.access.role_arn(&options.region)?;
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .build();
        let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::new(options.region.clone()))
            .http_client(sdk_http_client())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .load()
            .await;
        Self::from_config(config, role_arn, options).await
    }

    /// The same on an SDK configuration of the caller.
    pub async fn with_config(config: SdkConfig, options: DrsOptions) -> Result<Self, ConnectError> {
        check_region(&options.region)?;
        let role_arn = options.access.role_arn(&options.region)?;
        let region = Region::new(options.region.clone());
        // The provider of assumed roles panics without a time source, which a configuration made by hand may lack.
        let time = config.time_source().unwrap_or_default();
        let config =
            config.into_builder().region(region).retry_config(RetryConfig::disabled()).time_source(time);
        let config = config.build();
        Self::from_config(config, role_arn, options).await
    }

    async fn from_config(
        config: SdkConfig,
        role_arn: Option<String>,
        options: DrsOptions,
    ) -> Result<Self, ConnectError> {
        let config = match role_arn {
            None => config,
            Some(arn) => {
                let mut role = AssumeRoleProvider::builder(arn).session_name(SESSION_NAME).configure(&config);
                if let Some(external_id) = &options.access.external_id {
                    role = role.external_id(external_id);
                }
                let provider = SharedCredentialsProvider::new(role.build().await);
                config.into_builder().credentials_provider(provider).build()
            }
        };
        let account = match &options.access.account_id {
            Some(account) => account.clone(),
            None => current_account(&config).await?,
        };
        Ok(Self { config, account, options })
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// A DRS client that takes its tokens from the bucket of this account and region.
    ///
    /// Pass the same `buckets` to all clients of the process, or their rates add up.
    pub fn client<R: Runtime>(
        &self,
        runtime: R,
        buckets: &RateBuckets<R>,
        observer: Arc<dyn GuardObserver>,
    ) -> Result<DrsClient<R>, ConnectError> {
        let key = BucketKey::new(&self.account, &self.options.region);
        let bucket = buckets.bucket(key, self.options.guard.rate)?;
        let guard = ApiGuard::new(runtime.clone(), bucket, self.options.guard, Arc::clone(&observer));
        let throttler = JobThrottler::new(runtime, self.options.throttler, observer);
        Ok(DrsClient::new(aws_sdk_drs::Client::new(&self.config), guard, throttler))
    }

    /// A sink for metrics in this account and region.
    #[must_use]
    pub fn cloud_watch(&self) -> CloudWatchSink {
        let config = aws_sdk_cloudwatch::config::Builder::from(&self.config);
        // A batch has twenty measurements; compressing it saves nothing.
        let config = config.disable_request_compression(true).build();
        CloudWatchSink::new(aws_sdk_cloudwatch::Client::from_conf(config))
    }

    /// A sink for notices to this topic.
    #[must_use]
    pub fn sns(&self, topic_arn: impl Into<String>) -> SnsSink {
        SnsSink::new(aws_sdk_sns::Client::new(&self.config), topic_arn.into())
    }
}

async fn current_account(config: &SdkConfig) -> Result<String, ConnectError> {
    let identity = aws_sdk_sts::Client::new(config).get_caller_identity().send().await;
    let identity =
        identity.map_err(|error| ConnectError::UnknownAccount(describe_sdk_error(&error).message))?;
    let no_account = || ConnectError::UnknownAccount("STS named no account".to_owned());
    identity.account.ok_or_else(no_account)
}

/// A region becomes part of a host name.
fn check_region(region: &str) -> Result<(), ConnectError> {
    let is_sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = (1..=40).contains(&region.len())
        && region.bytes().all(is_sign)
        && !region.starts_with('-')
        && !region.ends_with('-');
    if is_valid { Ok(()) } else { Err(ConnectError::Region(region.to_owned())) }
}
