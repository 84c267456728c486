import ArgumentParser
import Moraine

/// The option that selects the keyspace a command uses.
struct KeyspaceOptions: ParsableArguments {
  @Option(
    name: .customLong("keyspace"),
    help: ArgumentHelp("The keyspace. Default: the unnamed one.", valueName: "name"))
  var name = ""

  func validate() throws {
    let limit = Keyspace.nameLengthBytes
    guard name.utf8.count <= limit else {
      throw ValidationError("--keyspace takes a name of up to \(limit) bytes")
    }
  }

  func callAsFunction(_ store: Store) throws(StoreError) -> Keyspace {
    try store.keyspace(named: name)
  }
}
