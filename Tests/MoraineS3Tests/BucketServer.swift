#if S3
  import MoraineArchive
  import NIOCore
  import NIOHTTP1
  import NIOPosix
  import Synchronization

  @testable import MoraineS3

  /// A server in this process that answers each request as a test says, and records the requests.
  final class BucketServer: Sendable {
    /// A request as it arrived.
    struct Received: Sendable {
      let method: String
      /// The path with the query.
      let uri: String
      let headers: HTTPHeaders
      let body: [UInt8]

      func header(_ name: String) -> String? { headers.first(name: name) }
    }

    enum Reply: Sendable {
      case answer(Int, [String: String] = [:], String = "")
      /// The connection is closed without an answer.
      case closed
      /// No answer ever comes.
      case silence
      /// An answer that ends before its length.
      case cut(Int, length: Int, String)
      /// An answer that stops before its length, over a connection that stays open.
      case stalled(Int, [String: String] = [:], length: Int, String)
      /// An answer whose body arrives in pieces, with a pause before each.
      case slow([String], pauseMilliseconds: Int64)
      /// An answer that begins later.
      indirect case late(milliseconds: Int64, Reply)

      /// A refusal with a code, as servers write it.
      static func refusal(_ status: Int, _ code: String, _ headers: [String: String] = [:]) -> Reply
      {
        .answer(
          status, headers,
          "<?xml version=\"1.0\"?>\n<Error><Code>\(code)</Code><Message>said so</Message></Error>")
      }
    }

    typealias Script = @Sendable (_ number: Int, Received) -> Reply

    private let requests = Mutex<[Received]>([])
    private let script: Script
    private let channel = Mutex<(any Channel)?>(nil)
    let port: Int

    /// Starts a server.
    ///
    /// - Parameter script: answers each request; it gets the number of the request, from 0.
    init(_ script: @escaping Script) async throws {
      self.script = script
      let owner = Owner()
      let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
        .childChannelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.configureHTTPServerPipeline()
            try channel.pipeline.syncOperations.addHandler(Handler(owner))
          }
        }
        .bind(host: "127.0.0.1", port: 0).get()
      port = channel.localAddress?.port ?? 0
      self.channel.withLock { $0 = channel }
      owner.server = self
    }

    deinit { channel.withLock { $0?.close(promise: nil) } }

    /// The requests so far.
    var received: [Received] { requests.withLock { $0 } }

    /// A bucket of this server.
    func objects(
      _ credentials: S3Credentials = .fixed(S3Keys(accessKeyID: "id", secretAccessKey: "secret")),
      prefix: String = "users", provider: S3Provider = .amazon, timeout: Duration = .seconds(60),
      idleLimit: Duration? = nil
    ) throws -> S3ObjectStore {
      let location = try S3Location(
        bucket: "bucket", prefix: prefix, endpoint: "http://127.0.0.1:\(port)",
        provider: provider)
      guard let idleLimit else {
        return S3ObjectStore(location, credentials: credentials, requestTimeout: timeout)
      }
      return S3ObjectStore(
        BucketClient(location, credentials, timeout: timeout, idleLimit: idleLimit))
    }

    fileprivate func reply(to request: Received) -> Reply {
      let number = requests.withLock { requests in
        requests.append(request)
        return requests.count - 1
      }
      return script(number, request)
    }

    /// The server of a connection; nil when the test has ended.
    fileprivate final class Owner: Sendable {
      private struct Reference: Sendable { weak var server: BucketServer? }

      private let reference = Mutex(Reference())

      var server: BucketServer? {
        get { reference.withLock { $0.server } }
        set { reference.withLock { $0.server = newValue } }
      }
    }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let owner: BucketServer.Owner
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []

    init(_ owner: BucketServer.Owner) { self.owner = owner }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head): (self.head, body) = (head, [])
      case .body(let buffer): body.append(contentsOf: buffer.readableBytesView)
      case .end:
        guard let head, let server = owner.server else { return context.close(promise: nil) }
        let request = BucketServer.Received(
          method: head.method.rawValue, uri: head.uri, headers: head.headers, body: body)
        write(server.reply(to: request), context)
      }
    }

    private func write(_ reply: BucketServer.Reply, _ context: ChannelHandlerContext) {
      switch reply {
      case .silence: break
      case .closed: context.close(promise: nil)
      case .answer(let status, let headers, let text):
        write(status, headers, text, text.utf8.count, context)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      case .cut(let status, let length, let text):
        write(status, [:], text, length, context)
        context.flush()
        context.close(promise: nil)
      case .stalled(let status, let headers, let length, let text):
        write(status, headers, text, length, context)
        context.flush()
      case .slow(let pieces, let pause):
        write(200, [:], "", pieces.reduce(0) { $0 + $1.utf8.count }, context)
        context.flush()
        write(pieces[...], every: pause, context)
      case .late(let milliseconds, let reply):
        context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) {
          self.write(reply, context)
        }
      }
    }

    private func write(
      _ pieces: ArraySlice<String>, every pause: Int64, _ context: ChannelHandlerContext
    ) {
      guard let piece = pieces.first else {
        return context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      }
      context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(pause)) {
        let part = HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: piece)))
        context.writeAndFlush(self.wrapOutboundOut(part), promise: nil)
        self.write(pieces.dropFirst(), every: pause, context)
      }
    }

    private func write(
      _ status: Int, _ headers: [String: String], _ text: String, _ length: Int,
      _ context: ChannelHandlerContext
    ) {
      var fields = HTTPHeaders(headers.map { ($0.key, $0.value) })
      // Stores of objects name what they have stored.
      if status < 300, !fields.contains(name: "no-etag") {
        fields.add(name: "etag", value: "\"1\"")
      }
      if status != 204 { fields.replaceOrAdd(name: "content-length", value: "\(length)") }
      let head = HTTPResponseHead(
        version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: fields)
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      if !text.isEmpty {
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
      }
    }
  }

  /// Returns a name that the rules of names allow.
  func objectName(_ text: String) -> ObjectName {
    do throws(ArchiveError) { return try ObjectName(text) } catch {
      preconditionFailure("\(error)")
    }
  }
#endif
