//! The smallest whole: a list over a socket, and a retry after a throttle.

use crate::cloud::{ACCOUNT, REGION, TestCloud};
use seawall_drs::fake::{FakeFault, FakeSettings};

#[test]
fn a_list_is_read_over_a_socket_with_a_valid_signature() {
    let cloud = TestCloud::start(FakeSettings { page_size: 2, ..FakeSettings::default() });
    cloud.fake.add_servers(ACCOUNT, REGION, ["s-1", "s-2", "s-3", "s-4", "s-5"]);
    cloud.fake.add_fault(Some("DescribeSourceServers"), FakeFault::throttle(), 1);
    let servers = cloud.run(async { cloud.client().await.describe_source_servers(None).await.unwrap() });
    let ids: Vec<_> = servers.iter().filter_map(|server| server.source_server_id()).collect();
    assert_eq!(ids, ["s-1", "s-2", "s-3", "s-4", "s-5"]);
    let calls = cloud.fake.calls_of("DescribeSourceServers");
    assert_eq!(calls.iter().map(|call| call.status).collect::<Vec<_>>(), [429, 200, 200, 200]);
    assert!(calls.iter().all(|call| call.sdk_request == "attempt=1; max=1"), "{calls:?}");
    assert_eq!(cloud.fake.refused_signatures(), 0);
}
