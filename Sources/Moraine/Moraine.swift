// `import Moraine` also imports the engine.
@_exported public import MoraineEngine
