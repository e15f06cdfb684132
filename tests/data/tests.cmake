script_tests(data changed)                       # data that changes under a run
