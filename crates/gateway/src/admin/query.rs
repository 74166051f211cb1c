//! Query parameters of the admin API. An unknown parameter is an error: a misspelt `caller` must not return the data of
//! all callers.

use super::response::AdminError;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;

/// The query parameters of one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AdminQuery(BTreeMap<String, String>);

/// Accepted by every endpoint: indents the JSON.
const PRETTY: &str = "pretty";

impl AdminQuery {
    /// Parses the query string. Names and values are plain, because no accepted value needs escapes.
    pub(super) fn parse(text: Option<&str>, known: &[&str]) -> Result<Self, AdminError> {
        let mut all = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if name != PRETTY && !known.contains(&name) {
                let names: Vec<&str> = known.iter().copied().chain([PRETTY]).collect();
                let message =
                    format!("{}: unknown parameter; expected one of {}", sanitized(name), names.join(", "));
                return Err(AdminError::InvalidParameter(message));
            }
            if all.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(AdminError::InvalidParameter(format!(
                    "{}: must not be repeated",
                    sanitized(name)
                )));
            }
        }
        Ok(Self(all))
    }

    /// Whether indented JSON is requested. Works for a query string that is otherwise invalid, too.
    pub(super) fn is_pretty(text: Option<&str>) -> bool {
        text.unwrap_or_default().split('&').any(|pair| pair == PRETTY || pair.starts_with("pretty="))
    }

    /// A parameter as it is.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The caller, by its pseudonym in the log: sixteen hexadecimal digits.
    pub(super) fn caller(&self) -> Result<Option<u64>, AdminError> {
        let Some(text) = self.get("caller") else { return Ok(None) };
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let caller = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
        let problem = || {
            AdminError::InvalidParameter("caller: must be 16 hexadecimal digits, as in the log".to_owned())
        };
        caller.map(Some).ok_or_else(problem)
    }

    pub(super) fn tier(&self) -> Result<Option<Tier>, AdminError> {
        let parse = |text| Tier::parse(text).map_err(|error| AdminError::InvalidParameter(error.to_string()));
        self.get("tier").map(parse).transpose()
    }

    /// The maximum number of results, from 1 to `max`; `default` if absent.
    pub(super) fn limit(&self, default: usize, max: usize) -> Result<usize, AdminError> {
        let Some(text) = self.get("limit") else { return Ok(default) };
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && (1..=max).contains(number));
        number.ok_or_else(|| AdminError::InvalidParameter(format!("limit: must be a number from 1 to {max}")))
    }
}

/// User input made safe to display: shortened, and without control characters.
fn sanitized(text: &str) -> String {
    text.chars().take(40).filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::{AdminError, AdminQuery};
    use proptest::prelude::{any, proptest};
    use seawall_core::vocabulary::Tier;

    const KNOWN: &[&str] = &["caller", "tier", "limit"];

    fn read(text: &str) -> Result<AdminQuery, AdminError> {
        AdminQuery::parse(Some(text), KNOWN)
    }

    fn message<T>(result: Result<T, AdminError>) -> String {
        match result {
            Err(AdminError::InvalidParameter(message)) => message,
            _ => String::new(),
        }
    }

    #[test]
    fn parameters_are_read_by_name() {
        let query = read("caller=00000000000000fF&tier=guest&limit=7&pretty").unwrap();
        assert_eq!((query.caller(), query.tier()), (Ok(Some(255)), Ok(Some(Tier::Guest))));
        assert_eq!(query.limit(50, 1_000), Ok(7));
        let empty = AdminQuery::parse(None, KNOWN).unwrap();
        assert_eq!((empty.caller(), empty.tier(), empty.limit(50, 1_000)), (Ok(None), Ok(None), Ok(50)));
        assert_eq!(read("").unwrap(), empty);
    }

    #[test]
    fn what_is_unknown_or_given_twice_is_a_mistake() {
        assert_eq!(
            message(read("callr=1")),
            "callr: unknown parameter; expected one of caller, tier, limit, pretty"
        );
        assert_eq!(message(read("tier=prime&tier=guest")), "tier: must not be repeated");
        assert_eq!(
            message(AdminQuery::parse(Some("caller=1"), &[])),
            "caller: unknown parameter; expected one of pretty"
        );
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for caller in
            ["", "1", "00000000000000f", "000000000000000ff", "+0000000000000ff", "000000000000000g"]
        {
            let message = message(read(&format!("caller={caller}")).unwrap().caller());
            assert!(message.starts_with("caller: must be 16"), "{caller}: {message}");
        }
        assert!(message(read("tier=gold").unwrap().tier()).contains("not one of prime, standard, guest"));
        for limit in ["", "0", "1001", "-1", "+1", "1.5", "99999999999999999999"] {
            let message = message(read(&format!("limit={limit}")).unwrap().limit(50, 1_000));
            assert_eq!(message, "limit: must be a number from 1 to 1000", "{limit}");
        }
        assert_eq!(read("limit=1").unwrap().limit(50, 1_000), Ok(1));
        assert_eq!(read("limit=1000").unwrap().limit(50, 1_000), Ok(1_000));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in any::<String>()) {
            if let Ok(query) = read(&text) {
                let _ = (query.caller(), query.tier(), query.limit(1, 2));
            }
            let _ = AdminQuery::is_pretty(Some(&text));
        }
    }
}
