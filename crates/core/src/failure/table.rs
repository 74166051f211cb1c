//! Maps a vendor's HTTP status and error name to a [`Failure`].
//!
//! A known name takes precedence over the status, because vendors reuse statuses: Bedrock sends an exhausted service
//! quota as 400, and every vendor sends errors inside a stream that began with 200. Otherwise the status decides. What
//! neither explains is [`FailureKind::Unrecognised`] and never retried on the same target.

use super::{Failure, FailureKind, Retryability};

/// One vendor's error names and statuses.
#[derive(Debug)]
pub struct ErrorTable {
    vendor: &'static str,
    names: &'static [(&'static str, FailureKind)],
    statuses: &'static [(u16, FailureKind)],
    /// Kinds for which a retry on the same target helps at this vendor, although not in general.
    retry_same_target: &'static [FailureKind],
}

impl ErrorTable {
    /// Classifies an HTTP status and, if the vendor sent one, an error name.
    ///
    /// AWS adds a namespace before `#` and a URL after `:` to names; both are ignored. So is case, because the same
    /// name begins with a lower-case letter inside an event stream.
    ///
    /// ```
    /// use seawall_core::failure::{ANTHROPIC, BEDROCK, FailureKind};
    ///
    /// assert_eq!(ANTHROPIC.classify(529, None).kind, FailureKind::Overloaded);
    /// let quota = BEDROCK.classify(400, Some("ServiceQuotaExceededException:http://internal"));
    /// assert_eq!(quota.kind, FailureKind::QuotaExhausted);
    /// ```
    #[must_use]
    pub fn classify(&self, status: u16, name: Option<&str>) -> Failure {
        let kind =
            name.and_then(|name| self.kind_of_name(name)).unwrap_or_else(|| self.kind_of_status(status));
        let mut failure = Failure::of(kind);
        // An error inside a response that had begun: the request was at least started.
        failure.not_executed &= status >= 400;
        // 408 means that the request took too long to arrive, so that nothing was generated; after 504 something may
        // have been.
        failure.no_output = status == 408;
        if self.retry_same_target.contains(&kind) {
            failure.retryability = Retryability::SameTarget;
        }
        failure
    }

    /// The vendor's name.
    #[must_use]
    pub const fn vendor(&self) -> &'static str {
        self.vendor
    }

    /// Every error name of this vendor, with its kind.
    #[must_use]
    pub const fn names(&self) -> &'static [(&'static str, FailureKind)] {
        self.names
    }

    /// Statuses that this vendor uses differently from the common mapping.
    #[must_use]
    pub const fn statuses(&self) -> &'static [(u16, FailureKind)] {
        self.statuses
    }

    fn kind_of_name(&self, name: &str) -> Option<FailureKind> {
        let name = name.rsplit_once('#').map_or(name, |(_, bare)| bare);
        let name = name.split_once(':').map_or(name, |(bare, _)| bare).trim();
        self.names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    fn kind_of_status(&self, status: u16) -> FailureKind {
        self.statuses
            .iter()
            .find(|(known, _)| *known == status)
            .map_or_else(|| default_kind_of_status(status), |(_, kind)| *kind)
    }
}

fn default_kind_of_status(status: u16) -> FailureKind {
    match status {
        401 | 403 => FailureKind::Unauthorized,
        402 => FailureKind::QuotaExhausted,
        404 => FailureKind::NotFound,
        408 | 504 => FailureKind::TimedOut,
        413 => FailureKind::TooLong,
        424 => FailureKind::ModelFault,
        429 => FailureKind::Throttled,
        503 | 529 => FailureKind::Overloaded,
        400..=499 => FailureKind::BadRequest,
        500..=599 => FailureKind::ServerFault,
        _ => FailureKind::Unrecognised,
    }
}

/// OpenAI chat completions and compatible APIs: the error's `code`, or its `type`.
///
/// One table serves OpenAI and the servers with its API, because their names do not contradict each other: what one of
/// them sends, no other sends with another meaning.
pub static OPENAI: ErrorTable = ErrorTable {
    vendor: "openai",
    names: &[
        ("rate_limit_exceeded", FailureKind::Throttled),
        ("rate_limit_error", FailureKind::Throttled),
        ("requests", FailureKind::Throttled),
        ("tokens", FailureKind::Throttled),
        ("insufficient_quota", FailureKind::QuotaExhausted),
        ("billing_hard_limit_reached", FailureKind::QuotaExhausted),
        ("billing_not_active", FailureKind::QuotaExhausted),
        ("engine_overloaded", FailureKind::Overloaded),
        ("server_overloaded", FailureKind::Overloaded),
        ("server_is_overloaded", FailureKind::Overloaded),
        ("slow_down", FailureKind::Overloaded),
        ("overloaded_error", FailureKind::Overloaded),
        ("server_error", FailureKind::ServerFault),
        ("internal_error", FailureKind::ServerFault),
        ("timeout", FailureKind::TimedOut),
        ("invalid_api_key", FailureKind::Unauthorized),
        ("invalid_authentication", FailureKind::Unauthorized),
        ("authentication_error", FailureKind::Unauthorized),
        ("permission_error", FailureKind::Unauthorized),
        ("model_not_found", FailureKind::NotFound),
        ("not_found_error", FailureKind::NotFound),
        ("context_length_exceeded", FailureKind::TooLong),
        ("string_above_max_length", FailureKind::TooLong),
        // llama.cpp: the prompt does not fit into a slot's context.
        ("exceed_context_size_error", FailureKind::TooLong),
        // Groq: the model's own tool call or JSON does not match the schema; flex requests find no capacity.
        ("tool_use_failed", FailureKind::ModelFault),
        ("json_validate_failed", FailureKind::ModelFault),
        ("capacity_exceeded", FailureKind::Overloaded),
        // llama.cpp: the model is being loaded.
        ("unavailable_error", FailureKind::Overloaded),
        ("content_filter", FailureKind::Filtered),
        ("content_policy_violation", FailureKind::Filtered),
        ("invalid_prompt", FailureKind::Filtered),
        ("unsupported_parameter", FailureKind::BadRequest),
        ("unsupported_value", FailureKind::BadRequest),
        ("invalid_value", FailureKind::BadRequest),
    ],
    // Groq's own status for a flex request without capacity.
    statuses: &[(498, FailureKind::Overloaded)],
    retry_same_target: &[],
};

/// Anthropic Messages: the error's `type`, or its `details.error_code`.
pub static ANTHROPIC: ErrorTable = ErrorTable {
    vendor: "anthropic",
    names: &[
        ("rate_limit_error", FailureKind::Throttled),
        ("ramp_limit_exceeded", FailureKind::Throttled),
        ("enforced_spend_limit_reached", FailureKind::QuotaExhausted),
        ("billing_error", FailureKind::QuotaExhausted),
        ("overloaded_error", FailureKind::Overloaded),
        ("timeout_error", FailureKind::TimedOut),
        ("api_error", FailureKind::ServerFault),
        ("authentication_error", FailureKind::Unauthorized),
        ("permission_error", FailureKind::Unauthorized),
        ("not_found_error", FailureKind::NotFound),
        ("request_too_large", FailureKind::TooLong),
        ("invalid_request_error", FailureKind::BadRequest),
        ("conflict_error", FailureKind::BadRequest),
    ],
    statuses: &[],
    retry_same_target: &[],
};

/// Amazon Bedrock runtime: the exception name.
pub static BEDROCK: ErrorTable = ErrorTable {
    vendor: "bedrock",
    names: &[
        ("ThrottlingException", FailureKind::Throttled),
        ("TooManyRequestsException", FailureKind::Throttled),
        ("ServiceQuotaExceededException", FailureKind::QuotaExhausted),
        ("ModelNotReadyException", FailureKind::NotReady),
        ("ModelTimeoutException", FailureKind::TimedOut),
        ("ModelErrorException", FailureKind::ModelFault),
        ("ModelStreamErrorException", FailureKind::ModelFault),
        ("ServiceUnavailableException", FailureKind::Overloaded),
        ("InternalServerException", FailureKind::ServerFault),
        ("InternalFailure", FailureKind::ServerFault),
        ("ValidationException", FailureKind::BadRequest),
        ("ConflictException", FailureKind::BadRequest),
        ("AccessDeniedException", FailureKind::Unauthorized),
        ("UnrecognizedClientException", FailureKind::Unauthorized),
        ("ExpiredTokenException", FailureKind::Unauthorized),
        ("InvalidSignatureException", FailureKind::Unauthorized),
        ("IncompleteSignatureException", FailureKind::Unauthorized),
        ("MissingAuthenticationTokenException", FailureKind::Unauthorized),
        ("ResourceNotFoundException", FailureKind::NotFound),
        ("UnknownOperationException", FailureKind::NotFound),
        ("GuardrailIntervention", FailureKind::Filtered),
        ("GuardrailInterventionException", FailureKind::Filtered),
    ],
    statuses: &[],
    retry_same_target: &[],
};

/// Gemini API: the status name of the error, or the `reason` of its details.
///
/// A failed precondition is one of the account: its region is not supported, or billing is not enabled.
pub static GEMINI: ErrorTable = ErrorTable {
    vendor: "gemini",
    names: &[
        ("RESOURCE_EXHAUSTED", FailureKind::Throttled),
        ("UNAVAILABLE", FailureKind::Overloaded),
        ("DEADLINE_EXCEEDED", FailureKind::TimedOut),
        ("INTERNAL", FailureKind::ServerFault),
        ("UNKNOWN", FailureKind::ServerFault),
        ("DATA_LOSS", FailureKind::ServerFault),
        ("ABORTED", FailureKind::ServerFault),
        ("CANCELLED", FailureKind::ServerFault),
        ("UNAUTHENTICATED", FailureKind::Unauthorized),
        ("PERMISSION_DENIED", FailureKind::Unauthorized),
        ("FAILED_PRECONDITION", FailureKind::Unauthorized),
        ("API_KEY_INVALID", FailureKind::Unauthorized),
        ("API_KEY_SERVICE_BLOCKED", FailureKind::Unauthorized),
        ("SERVICE_DISABLED", FailureKind::Unauthorized),
        ("ACCESS_TOKEN_EXPIRED", FailureKind::Unauthorized),
        ("BILLING_DISABLED", FailureKind::QuotaExhausted),
        ("NOT_FOUND", FailureKind::NotFound),
        ("UNIMPLEMENTED", FailureKind::NotFound),
        ("INVALID_ARGUMENT", FailureKind::BadRequest),
        ("OUT_OF_RANGE", FailureKind::BadRequest),
        ("ALREADY_EXISTS", FailureKind::BadRequest),
    ],
    statuses: &[],
    retry_same_target: &[],
};

/// AWS Elastic Disaster Recovery: the exception name.
///
/// An exhausted service quota is worth a backoff here, because finished recovery jobs free it.
pub static DRS: ErrorTable = ErrorTable {
    vendor: "drs",
    names: &[
        ("ThrottlingException", FailureKind::Throttled),
        ("Throttling", FailureKind::Throttled),
        ("RequestLimitExceeded", FailureKind::Throttled),
        ("TooManyRequestsException", FailureKind::Throttled),
        ("ServiceQuotaExceededException", FailureKind::QuotaExhausted),
        ("ServiceUnavailable", FailureKind::Overloaded),
        ("ServiceUnavailableException", FailureKind::Overloaded),
        ("InternalServerException", FailureKind::ServerFault),
        ("ValidationException", FailureKind::BadRequest),
        ("ConflictException", FailureKind::BadRequest),
        ("UninitializedAccountException", FailureKind::Unauthorized),
        ("AccessDeniedException", FailureKind::Unauthorized),
        ("UnrecognizedClientException", FailureKind::Unauthorized),
        ("ExpiredTokenException", FailureKind::Unauthorized),
        ("InvalidSignatureException", FailureKind::Unauthorized),
        ("ResourceNotFoundException", FailureKind::NotFound),
    ],
    statuses: &[],
    retry_same_target: &[FailureKind::QuotaExhausted],
};
