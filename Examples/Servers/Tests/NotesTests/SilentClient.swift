import Foundation

/// A client that sends a request and reads nothing.
struct SilentClient {
  struct Refused: Error {
    let number: Int32
  }

  private let descriptor: Int32

  init() throws {
    #if canImport(Darwin)
      descriptor = socket(AF_INET, SOCK_STREAM, 0)
    #else
      descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #endif
    guard descriptor >= 0 else { throw Refused(number: errno) }
    // The system of the client keeps little of what nothing reads.
    var count: Int32 = 4096
    setsockopt(
      descriptor, SOL_SOCKET, SO_RCVBUF, &count, socklen_t(MemoryLayout<Int32>.size))
  }

  /// Connects to a port of this machine, and sends a request.
  func send(_ request: String, toPort port: UInt16) throws {
    var place = sockaddr_in()
    place.sin_family = sa_family_t(AF_INET)
    place.sin_port = port.bigEndian
    place.sin_addr.s_addr = inet_addr("127.0.0.1")
    let result = withUnsafePointer(to: &place) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 else { throw Refused(number: errno) }
    try FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
      .write(contentsOf: Data(request.utf8))
  }

  func end() { close(descriptor) }
}
