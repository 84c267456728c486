import Foundation
import Moraine
import SystemPackage

/// An error that ends the command with a given exit code.
struct Failure: Error {
  let code: Int32
  let message: String?

  static let notFound = Failure(code: 1, message: nil)

  /// The reader closed the pipe of our output (`| head`). This is no error: no message, code 0.
  static let readerGone = Failure(code: 0, message: nil)

  static func usage(_ message: String) -> Failure { Failure(code: 2, message: message) }

  /// Creates a failure from an operating system error on a stream or a file.
  init(_ action: String, _ error: any Error) {
    let errno = Self.errno(of: error)
    let isFull = errno == .noSpace || errno == .diskQuotaExceeded
    let reason = errno.map { "\($0)" } ?? "\(error)"
    self.init(code: isFull ? 6 : 5, message: "cannot \(action): \(reason)")
  }

  /// Returns the operating system's error, also where Foundation has wrapped it.
  private static func errno(of error: any Error) -> Errno? {
    if let errno = error as? Errno { return errno }
    let wrapped = error as NSError
    if wrapped.domain == NSPOSIXErrorDomain { return Errno(rawValue: CInt(wrapped.code)) }
    let inner = wrapped.userInfo[NSUnderlyingErrorKey] as? any Error
    return inner.flatMap { errno(of: $0) }
  }

  init(code: Int32, message: String?) {
    self.code = code
    self.message = message
  }
}

extension StoreError: JSONRepresentable {
  /// One object with code, file, offset and message; null where a field does not apply.
  var json: String {
    let object: JSONObject = [
      "code": code.description, "file": file, "offset": offset, "message": message,
    ]
    return object.json
  }

  /// Exit code, as listed in the help of `moraine`.
  var exitCode: Int32 {
    switch code {
    case .keyTooLarge, .valueTooLarge, .notAStore, .readOnly, .sequenceUnavailable,
      .cursorExpired, .cursorDiverged, .historyDiverged, .invalidArgument:
      2
    case .corrupted: 3
    case .locked: 4
    case .noSpace: 6
    case .newerFormat: 7
    default: 5
    }
  }
}
