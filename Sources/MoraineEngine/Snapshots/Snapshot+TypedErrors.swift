// The forms for bodies that throw no errors, or those of the store. `Store+TypedErrors.swift` says
// why there are two.

extension Store.Snapshot {
  /// Calls a body that throws no errors, or those of the store, with the value of a key. See
  /// ``withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: (RawSpan) throws(StoreError) -> Result
  ) throws(StoreError) -> Result? {
    do { return try withValue(forKey: key) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with every live record. See
  /// ``scan(_:)``.
  public func scan(_ body: (Store.Entry) throws(StoreError) -> Bool) throws(StoreError) {
    do { try scan { try body($0) } } catch { throw StoreError(of: error) }
  }

  /// Calls a body that throws no errors, or those of the store, with the bytes of every live
  /// record. See ``scanSpans(_:)``.
  public func scanSpans(
    _ body: (_ key: RawSpan, _ value: RawSpan) throws(StoreError) -> Bool
  ) throws(StoreError) {
    do { try scanSpans { try body($0, $1) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with the entries of a range. See
  /// ``scan(in:order:_:)``.
  public func scan(
    in range: some KeyRangeConvertible, order: KeyOrder = .ascending,
    _ body: (Store.Entry) throws(StoreError) -> Bool
  ) throws(StoreError) {
    do { try scan(in: range, order: order) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with the keys of a range. See
  /// ``scanKeys(in:order:_:)``.
  public func scanKeys(
    in range: some KeyRangeConvertible, order: KeyOrder = .ascending,
    _ body: (RawSpan) throws(StoreError) -> Bool
  ) throws(StoreError) {
    do { try scanKeys(in: range, order: order) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with the bytes of the entries of a
  /// range. See ``scanSpans(in:order:_:)``.
  public func scanSpans(
    in range: some KeyRangeConvertible, order: KeyOrder = .ascending,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws(StoreError) -> Bool
  ) throws(StoreError) {
    do { try scanSpans(in: range, order: order) { try body($0, $1) } } catch {
      throw StoreError(of: error)
    }
  }
}
