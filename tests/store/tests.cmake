script_tests(store flip hostile verify)          # disks and files that go wrong
