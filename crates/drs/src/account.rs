//! Which AWS account a client works in, and the role it assumes there.

use serde::{Deserialize, Serialize};

/// The name under which an assumed session appears in CloudTrail.
#[cfg(feature = "aws")]
pub(crate) const SESSION_NAME: &str = "seawall-drs";

/// The account in which calls are made: the one of the credentials at hand, or another one through an assumed role.
///
/// The JSON form is the `accountContext` object that recovery plans carry.
///
/// ```
/// use seawall_drs::AccountAccess;
///
/// let access: AccountAccess = serde_json::from_str(
///     r#"{"isCurrentAccount": false, "accountId": "210987654321",
///         "assumeRoleName": "recovery", "externalId": "tenant-7"}"#,
/// )?;
/// let arn = access.role_arn("ap-northeast-1")?;
/// assert_eq!(arn.as_deref(), Some("arn:aws:iam::210987654321:role/recovery"));
/// assert_eq!(AccountAccess::current().role_arn("ap-northeast-1")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccountAccess {
    /// Whether the account is the one of the credentials at hand; no role is assumed then.
    #[serde(default = "is_current_by_default")]
    pub is_current_account: bool,
    /// The twelve digits of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The role to assume in another account, with its path if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_role_name: Option<String>,
    /// The external id that the role's trust policy requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

const fn is_current_by_default() -> bool {
    true
}

/// Why an account access is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountAccessError {
    /// The account id is not an account id.
    #[error("accountId {0:?} is not an AWS account id: write its 12 digits")]
    AccountId(String),
    /// Another account was named without an id.
    #[error("another account needs its accountId: write its 12 digits")]
    NoAccountId,
    /// Another account was named without a role.
    #[error("account {0} is not the current one and needs assumeRoleName, the role to assume there")]
    NoRole(String),
    /// The role's name has characters that IAM does not allow.
    #[error("assumeRoleName {0:?} is not a role name: use letters, digits and +=,.@_-, and / for its path")]
    RoleName(String),
    /// The external id has characters that STS does not allow.
    #[error("externalId is invalid: STS allows 2 to 1224 letters, digits and +=,.@:/_-")]
    ExternalId,
    /// A role was given for the current account.
    #[error("assumeRoleName {0:?} has no effect in the current account: set isCurrentAccount to false")]
    UnusedRole(String),
}

impl AccountAccess {
    /// The account of the credentials at hand.
    #[must_use]
    pub const fn current() -> Self {
        Self { is_current_account: true, account_id: None, assume_role_name: None, external_id: None }
    }

    /// Another account, through a role there.
    #[must_use]
    pub fn assume(account_id: impl Into<String>, role_name: impl Into<String>) -> Self {
        Self {
            is_current_account: false,
            account_id: Some(account_id.into()),
            assume_role_name: Some(role_name.into()),
            external_id: None,
        }
    }

    /// The same with the external id that the role requires.
    #[must_use]
    pub fn with_external_id(self, external_id: impl Into<String>) -> Self {
        Self { external_id: Some(external_id.into()), ..self }
    }

    /// Checks the fields and returns the role to assume; `None` in the current account.
    ///
    /// The region decides the partition: China and GovCloud have their own.
    pub fn role_arn(&self, region: &str) -> Result<Option<String>, AccountAccessError> {
        if let Some(id) = &self.account_id
            && !(id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return Err(AccountAccessError::AccountId(id.clone()));
        }
        if self.is_current_account {
            return match &self.assume_role_name {
                Some(role) => Err(AccountAccessError::UnusedRole(role.clone())),
                None => Ok(None),
            };
        }
        let id = self.account_id.as_deref().ok_or(AccountAccessError::NoAccountId)?;
        let role = self.assume_role_name.as_deref().ok_or_else(|| AccountAccessError::NoRole(id.to_owned()))?;
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-/".contains(&byte);
        let name = role.rsplit('/').next().unwrap_or(role);
        if name.is_empty() || role.starts_with('/') || role.len() > 576 || !role.bytes().all(is_sign) {
            return Err(AccountAccessError::RoleName(role.to_owned()));
        }
        if let Some(external_id) = &self.external_id {
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@:/_-".contains(&byte);
            if !(2..=1224).contains(&external_id.len()) || !external_id.bytes().all(is_sign) {
                return Err(AccountAccessError::ExternalId);
            }
        }
        Ok(Some(format!("arn:{}:iam::{id}:role/{role}", partition(region))))
    }
}

fn partition(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "aws-cn"
    } else if region.starts_with("us-gov-") {
        "aws-us-gov"
    } else {
        "aws"
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountAccess, AccountAccessError};

    #[test]
    fn the_json_form_has_the_names_of_recovery_plans() {
        let access = AccountAccess::assume("210987654321", "recovery").with_external_id("t-7");
        let json = serde_json::to_value(&access).unwrap();
        let expected = serde_json::json!({
            "isCurrentAccount": false,
            "accountId": "210987654321",
            "assumeRoleName": "recovery",
            "externalId": "t-7",
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<AccountAccess>(json).unwrap(), access);
        assert_eq!(serde_json::from_str::<AccountAccess>("{}").unwrap(), AccountAccess::current());
        assert!(serde_json::from_str::<AccountAccess>(r#"{"roleName": "x"}"#).is_err());
    }

    #[test]
    fn the_partition_follows_the_region() {
        let access = AccountAccess::assume("210987654321", "path/recovery");
        for (region, partition) in
            [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
        {
            let expected = format!("arn:{partition}:iam::210987654321:role/path/recovery");
            assert_eq!(access.role_arn(region), Ok(Some(expected)));
        }
    }

    #[test]
    fn bad_input_is_named() {
        let assume = AccountAccess::assume;
        let digits = "210987654321";
        for (access, expected) in [
            (assume("2109", "r"), AccountAccessError::AccountId("2109".to_owned())),
            (assume("21098765432x", "r"), AccountAccessError::AccountId("21098765432x".to_owned())),
            (assume(digits, ""), AccountAccessError::RoleName(String::new())),
            (assume(digits, "a b"), AccountAccessError::RoleName("a b".to_owned())),
            (assume(digits, "path/"), AccountAccessError::RoleName("path/".to_owned())),
            (assume(digits, "r").with_external_id("x"), AccountAccessError::ExternalId),
            (assume(digits, "r").with_external_id("x\ny"), AccountAccessError::ExternalId),
            (
                AccountAccess { assume_role_name: None, ..assume(digits, "r") },
                AccountAccessError::NoRole(digits.to_owned()),
            ),
            (AccountAccess { account_id: None, ..assume(digits, "r") }, AccountAccessError::NoAccountId),
            (
                AccountAccess { is_current_account: true, ..assume(digits, "r") },
                AccountAccessError::UnusedRole("r".to_owned()),
            ),
        ] {
            assert_eq!(access.role_arn("eu-west-1"), Err(expected));
        }
    }
}
