# The HTTP server before a fake engine, and clients of it; its page before the engine too.
target_link_options(serve_service_test PRIVATE LINKER:--wrap=calloc)
if(MICROHTTPD_FOUND)
    add_executable(serve_fake ${CMAKE_CURRENT_LIST_DIR}/fake_server.c ${CMAKE_CURRENT_LIST_DIR}/fake_engine.c)
    target_include_directories(serve_fake PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(serve_fake PRIVATE module_serve)
    find_package(Python3 COMPONENTS Interpreter)
    foreach(script api limits clients page)
        if(Python3_FOUND)
            add_test(NAME serve.${script} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${script}.py)
            set_tests_properties(serve.${script} PROPERTIES LABELS serve TIMEOUT 1200 SKIP_RETURN_CODE 77
                ENVIRONMENT "SERVE_FAKE=$<TARGET_FILE:serve_fake>;SANITIZE=${JOTUN_SANITIZE};PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/report")
            if(script STREQUAL "page")                                          # what sanitizers look at is in the others
                set_tests_properties(serve.page PROPERTIES LABELS "serve;slow")
            endif()
            add_custom_target(serve_${script} DEPENDS serve_fake)               # what tests/planted/bugs.py builds for it
        endif()
    endforeach()
    if(Python3_FOUND)
        add_test(NAME serve.engine_clients COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/clients.py engine)
        set_tests_properties(serve.engine_clients PROPERTIES LABELS "serve;slow" TIMEOUT 1200 ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;SANITIZE=${JOTUN_SANITIZE}")
    endif()
    if(Python3_FOUND AND NOT JOTUN_SANITIZE)
        add_test(NAME serve.engine_page COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/engine_page.py)
        set_tests_properties(serve.engine_page PROPERTIES LABELS "serve;slow" TIMEOUT 600 SKIP_RETURN_CODE 77
            ENVIRONMENT "JOTUN=$<TARGET_FILE:jotun>;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/report")
    endif()
endif()
