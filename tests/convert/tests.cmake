script_tests(convert hf)                    # folders of Hugging Face's transformers, read and written
