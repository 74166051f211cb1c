//! Checks that every endpoint is documented.

use super::routes::ROUTES;

const PAGE: &str = include_str!("../../../../docs/admin.md");

#[test]
fn every_path_and_parameter_is_documented() {
    for route in ROUTES {
        assert!(PAGE.contains(&format!("`{} {}`", route.method, route.path)), "{}", route.path);
        for parameter in route.parameters {
            assert!(PAGE.contains(&format!("`{parameter}=")), "{} {parameter}", route.path);
        }
    }
}
