use super::*;

#[test]
fn only_the_servers_own_variables_are_kept_back() {
    for name in ["TRIPLANE_TOKEN", "LARIK_SERVER_TOKEN", "LICH_X", "SEPIA_Y", "TRIPLANE_ADDR"] {
        assert!(is_server_only(name), "{name}");
    }
    for name in ["PATH", "HOME", "TRIPLANE_HOME", "TRIPLANE_RUN", "MY_TRIPLANE_TOKEN", "ANTHROPIC_API_KEY"] {
        assert!(!is_server_only(name), "{name}");
    }
}

#[test]
fn markers_differ() {
    assert_ne!(fresh_marker(), fresh_marker());
}
