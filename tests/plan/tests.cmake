# What --dry-run says, by the binary itself.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_custom_target(plan_dry_run DEPENDS jotun)          # what tests/planted/bugs.py builds for it
    add_test(NAME plan.dry_run COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/dry_run.py)
    set_tests_properties(plan.dry_run PROPERTIES LABELS plan TIMEOUT 600 ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;SANITIZE=${JOTUN_SANITIZE}")
endif()
