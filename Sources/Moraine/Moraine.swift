// One import for an app: the engine, and what builds on Foundation.
@_exported public import MoraineEngine
