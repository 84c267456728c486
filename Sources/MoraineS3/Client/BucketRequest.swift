#if S3
  import MoraineArchive

  /// One request to a bucket.
  struct BucketRequest: Sendable {
    enum Verb: String, Sendable {
      case get = "GET"
      case put = "PUT"
      case delete = "DELETE"
    }

    let verb: Verb
    /// The object; nil for a list.
    let object: ObjectName?
    /// The key of the object; empty for the bucket.
    let key: String
    var query: [SignableRequest.Field] = []
    /// Headers of the request itself, in lower case.
    var headers: [SignableRequest.Field] = []
    /// The body of a request that writes.
    var body: PreparedBody?
    /// The bytes of the object that a GET asks for; nil for all of them.
    var range: Range<Int>?
    /// The most bytes of the answer, if it is no refusal.
    var answerLimit = Int.max

    /// Whether the request changes the bucket.
    var changes: Bool { verb != .get }

    /// The most bytes of an answer with a status. Of an empty range one byte is requested.
    func longestAnswer(status: Int) -> Int {
      guard status == 206, let range else { return answerLimit }
      return max(1, range.count)
    }

    /// Where the answer of a server that ignores the range may be cut; nil to read all of it.
    func endOfInterest(status: Int) -> Int? { status == 206 ? nil : range?.upperBound }
  }

  /// A body whose digest is known.
  struct PreparedBody: Sendable {
    let body: ObjectBody
    /// The SHA-256 of the body, in hexadecimal digits.
    let digest: String
    /// All bytes of a short body; nil for a body that is read again while it is sent.
    let bytes: [UInt8]?
  }

  /// The answer of a server.
  struct BucketAnswer: Sendable {
    let status: Int
    /// The header fields that requests need, by their names in lower case.
    let headers: [String: String]
    /// The body; of a refusal its beginning.
    let body: [UInt8]
    /// The reason of a refusal.
    let reason: RefusalReason?

    var isSuccess: Bool { (200..<300).contains(status) }

    var code: String { reason?.code ?? "" }
  }
#endif
