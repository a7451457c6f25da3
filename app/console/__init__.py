"""Pages for people: what the API knows, server-rendered, behind a login by API key.

Everything shown came from somebody: model names, labels, texts, file names. Pages escape all of it, run one script file
of ours and nothing else (see :mod:`app.console.pages`), and change nothing unless the request comes from a page of this
service (see :mod:`app.console.viewer`).
"""
