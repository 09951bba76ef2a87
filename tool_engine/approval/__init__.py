"""May a call run, and may its result be read, by the consent of a person?"""
