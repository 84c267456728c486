import MoraineEngine
import Testing

extension Store.Snapshot {
  /// Returns all records, found by iterating over the snapshot.
  func contents() throws -> [Key: [UInt8]] {
    var result: [Key: [UInt8]] = [:]
    try scan { entry in
      #expect(result.updateValue(entry.value, forKey: entry.key) == nil, "\(entry.key) came twice")
      return true
    }
    return result
  }

  /// Returns all records, read from borrowed values.
  func lentContents() throws -> [Key: [UInt8]] {
    var result: [Key: [UInt8]] = [:]
    try scanSpans { key, value in
      let (key, value) = (
        Key(key.withUnsafeBytes { [UInt8]($0) }), value.withUnsafeBytes { [UInt8]($0) }
      )
      #expect(result.updateValue(value, forKey: key) == nil, "\(key) came twice")
      return true
    }
    return result
  }

  /// Compares the snapshot with its expected contents, in every way that it can be read.
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
