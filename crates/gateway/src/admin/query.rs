//! Query parameters of the admin API. An unknown parameter is an error: a misspelt `caller` must not return the data of
//! all callers.

use super::answer::AdminError;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;

/// The query parameters of one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

/// Accepted by every endpoint: indents the JSON.
const PRETTY: &str = "pretty";

impl Query {
    /// Parses the query string. Names and values are plain, because no accepted value needs escapes.
    pub(super) fn read(text: Option<&str>, known: &[&str]) -> Result<Self, AdminError> {
        let mut all = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if name != PRETTY && !known.contains(&name) {
                let names: Vec<&str> = known.iter().copied().chain([PRETTY]).collect();
                let message = format!("{}: no such parameter; there is {}", shown(name), names.join(", "));
                return Err(AdminError::Parameter(message));
            }
            if all.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(AdminError::Parameter(format!("{}: given twice", shown(name))));
            }
        }
        Ok(Self(all))
    }

    /// Whether indented JSON is requested. Works for a query string that is otherwise invalid, too.
    pub(super) fn is_pretty(text: Option<&str>) -> bool {
        text.unwrap_or_default().split('&').any(|pair| pair == PRETTY || pair.starts_with("pretty="))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The caller, by its pseudonym in the log: sixteen hexadecimal digits.
    pub(super) fn caller(&self) -> Result<Option<u64>, AdminError> {
        let Some(text) = self.get("caller") else { return Ok(None) };
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let caller = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
        let problem =
            || AdminError::Parameter("caller: must be 16 hexadecimal digits, as in the log".to_owned());
        caller.map(Some).ok_or_else(problem)
    }

    pub(super) fn tier(&self) -> Result<Option<Tier>, AdminError> {
        let parse = |text| Tier::parse(text).map_err(|error| AdminError::Parameter(error.to_string()));
        self.get("tier").map(parse).transpose()
    }

    /// The maximum number of results, from 1 to `limit`; `usual` if absent.
    pub(super) fn most(&self, usual: usize, limit: usize) -> Result<usize, AdminError> {
        let Some(text) = self.get("most") else { return Ok(usual) };
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && (1..=limit).contains(number));
        number.ok_or_else(|| AdminError::Parameter(format!("most: must be a number from 1 to {limit}")))
    }
}

/// User input made safe to display: shortened, and without control characters.
fn shown(text: &str) -> String {
    text.chars().take(40).filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::{AdminError, Query};
    use proptest::prelude::{any, proptest};
    use seawall_core::vocabulary::Tier;

    const KNOWN: &[&str] = &["caller", "tier", "most"];

    fn read(text: &str) -> Result<Query, AdminError> {
        Query::read(Some(text), KNOWN)
    }

    fn said<T>(result: Result<T, AdminError>) -> String {
        match result {
            Err(AdminError::Parameter(message)) => message,
            _ => String::new(),
        }
    }

    #[test]
    fn parameters_are_read_by_name() {
        let query = read("caller=00000000000000fF&tier=guest&most=7&pretty").unwrap();
        assert_eq!((query.caller(), query.tier()), (Ok(Some(255)), Ok(Some(Tier::Guest))));
        assert_eq!(query.most(50, 1_000), Ok(7));
        let empty = Query::read(None, KNOWN).unwrap();
        assert_eq!((empty.caller(), empty.tier(), empty.most(50, 1_000)), (Ok(None), Ok(None), Ok(50)));
        assert_eq!(read("").unwrap(), empty);
    }

    #[test]
    fn what_is_unknown_or_given_twice_is_a_mistake() {
        assert_eq!(said(read("callr=1")), "callr: no such parameter; there is caller, tier, most, pretty");
        assert_eq!(said(read("tier=prime&tier=guest")), "tier: given twice");
        assert_eq!(said(Query::read(Some("caller=1"), &[])), "caller: no such parameter; there is pretty");
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for caller in
            ["", "1", "00000000000000f", "000000000000000ff", "+0000000000000ff", "000000000000000g"]
        {
            let said = said(read(&format!("caller={caller}")).unwrap().caller());
            assert!(said.starts_with("caller: must be 16"), "{caller}: {said}");
        }
        assert!(said(read("tier=gold").unwrap().tier()).contains("none of prime, standard, guest"));
        for most in ["", "0", "1001", "-1", "+1", "1.5", "99999999999999999999"] {
            let said = said(read(&format!("most={most}")).unwrap().most(50, 1_000));
            assert_eq!(said, "most: must be a number from 1 to 1000", "{most}");
        }
        assert_eq!(read("most=1").unwrap().most(50, 1_000), Ok(1));
        assert_eq!(read("most=1000").unwrap().most(50, 1_000), Ok(1_000));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in any::<String>()) {
            if let Ok(query) = read(&text) {
                let _ = (query.caller(), query.tier(), query.most(1, 2));
            }
            let _ = Query::is_pretty(Some(&text));
        }
    }
}
