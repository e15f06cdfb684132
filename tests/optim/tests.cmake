target_link_libraries(optim_rules_test PRIVATE PkgConfig::JANSSON)             # reads goldens
script_tests(optim table)                # the program that compares all optimizers
