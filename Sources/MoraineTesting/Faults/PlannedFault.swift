import MoraineStorage

/// A fault, and the call at which it occurs.
package struct PlannedFault: Hashable, Sendable {
  let effect: DiskFault.Effect
  let isPermanent: Bool
  let call: StorageCall

  var circumstances: String { "\(effect) \(isPermanent ? "from then on" : "once") at \(call)" }
}

/// The text form, for example `eio,once,0,write,3,0000000001.segment`: the fault, whether it is
/// permanent, the number of the opening, the call, its number among the calls of its kind on the
/// file, and the name of the file.
extension PlannedFault: LosslessStringConvertible {
  package var description: String {
    let duration = isPermanent ? "lasting" : "once"
    return "\(effect.name),\(duration),\(call.life),\(call.operation.rawValue),"
      + "\(call.number),\(call.file)"
  }

  package init?(_ description: String) {
    let parts = description.split(
      separator: ",", maxSplits: 5, omittingEmptySubsequences: false
    ).map(String.init)
    guard parts.count == 6, let effect = DiskFault.Effect(name: parts[0]),
      ["once", "lasting"].contains(parts[1]), let life = Int(parts[2]), life >= 0,
      let operation = StorageEvent.Operation(rawValue: parts[3]),
      let number = Int(parts[4]), number >= 1, !parts[5].isEmpty
    else { return nil }
    self.effect = effect
    isPermanent = parts[1] == "lasting"
    call = StorageCall(life: life, operation: operation, file: parts[5], number: number)
  }
}

extension PlannedFault: Codable {
  package init(from decoder: any Decoder) throws {
    let text = try decoder.singleValueContainer().decode(String.self)
    guard let fault = PlannedFault(text) else {
      throw DecodingError.dataCorrupted(
        .init(codingPath: decoder.codingPath, debugDescription: "'\(text)' is no fault"))
    }
    self = fault
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}

extension DiskFault.Effect {
  /// A word for command lines.
  package var name: String {
    switch self {
    case .ioError: "eio"
    case .noSpace: "enospc"
    case .tooManyOpenFiles: "emfile"
    case .interrupted: "eintr"
    case .short(let lengthBytes): "short\(lengthBytes)"
    case .dropsUnsynced: "drop"
    }
  }

  package init?(name: String) {
    switch name {
    case "eio": self = .ioError
    case "enospc": self = .noSpace
    case "emfile": self = .tooManyOpenFiles
    case "eintr": self = .interrupted
    case "drop": self = .dropsUnsynced
    default:
      guard name.hasPrefix("short"), let length = Int(name.dropFirst(5)), length >= 0 else {
        return nil
      }
      self = .short(lengthBytes: length)
    }
  }
}
