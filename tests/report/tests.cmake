# Pages in headless Chromium (tests/report/browser.py); pictures of them stay in the build folder.
if(NOT JOTUN_SANITIZE)                                 # a browser's time is not the program's
    script_tests(report driver pages)
endif()
script_tests(report records)
add_custom_target(report_pages DEPENDS jotun)          # what tests/planted/bugs.py builds for it
add_custom_target(report_records DEPENDS jotun)
