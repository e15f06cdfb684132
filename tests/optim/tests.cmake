target_link_libraries(optim_rules_test PRIVATE PkgConfig::JANSSON)             # reads goldens
