/// Something that runs jobs one after the other on a thread of its own.
protocol JobRunner: AnyObject, Sendable {
  func enqueue(_ job: @escaping @Sendable () -> Void)
}

extension JobRunner {
  /// Runs the body on the thread and waits for it.
  func run<Result: Sendable>(
    _ body: @escaping @Sendable () throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    let answer: Swift.Result<Result, StoreError> = await withUnsafeContinuation { continuation in
      enqueue {
        do throws(StoreError) {
          continuation.resume(returning: .success(try body()))
        } catch {
          continuation.resume(returning: .failure(error))
        }
      }
    }
    return try answer.get()
  }
}
