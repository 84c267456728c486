import MoraineEngine
import Testing

extension Snapshot {
  /// Everything in it, found by going through it.
  func contents() throws -> [Key: [UInt8]] {
    var result: [Key: [UInt8]] = [:]
    try forEach { entry in
      #expect(result.updateValue(entry.value, forKey: entry.key) == nil, "\(entry.key) came twice")
      return true
    }
    return result
  }

  /// The same, by what is lent.
  func lentContents() throws -> [Key: [UInt8]] {
    var result: [Key: [UInt8]] = [:]
    try forEachSpan { key, value in
      let (key, value) = (
        Key(key.withUnsafeBytes { [UInt8]($0) }), value.withUnsafeBytes { [UInt8]($0) }
      )
      #expect(result.updateValue(value, forKey: key) == nil, "\(key) came twice")
      return true
    }
    return result
  }

  /// Compares it with what it should have, in every way that it can be asked.
  func check(_ model: [Key: [UInt8]], absent: [Key] = [], _ what: Comment? = nil) throws {
    #expect(try contents() == model, what)
    #expect(try lentContents() == model, what)
    let keys = Array(model.keys) + absent
    #expect(try values(forKeys: keys) == keys.map { model[$0] }, what)
    for key in keys {
      #expect(try value(forKey: key) == model[key], what)
      #expect(try contains(key) == (model[key] != nil), what)
      #expect(try withValue(forKey: key) { $0.byteCount } == model[key]?.count, what)
    }
  }
}
