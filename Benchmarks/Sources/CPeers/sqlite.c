#include "loading.h"

#if __has_include(<sqlite3.h>)
#include <pthread.h>
#include <sqlite3.h>

#define FUNCTIONS(F)                                                                               \
  F(sqlite3_open_v2) F(sqlite3_close_v2) F(sqlite3_exec) F(sqlite3_prepare_v3) F(sqlite3_step)     \
  F(sqlite3_reset) F(sqlite3_finalize) F(sqlite3_bind_blob) F(sqlite3_column_blob)                 \
  F(sqlite3_column_bytes) F(sqlite3_errmsg) F(sqlite3_libversion) F(sqlite3_busy_timeout)
FUNCTIONS(PEER_FUNCTION)

struct peer_store {
  // One connection writes: SQLite has one writer at a time, and waiting for it here is cheaper than
  // being told that it is busy.
  pthread_mutex_t mutex;
  sqlite3 *db;
  sqlite3_stmt *put, *remove;
  char path[1024];
};

struct peer_reader {
  sqlite3 *db;
  sqlite3_stmt *get, *scan, *scan_keys;
};

static const char *load(void) {
  void *library = peer_open_library("sqlite3");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  return NULL;
}

static const char *version(void) { return p_sqlite3_libversion(); }

static int failed(const char *what, int code, sqlite3 *db) {
  if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return 0;
  return peer_fail(what, p_sqlite3_errmsg(db));
}

static int execute(sqlite3 *db, const char *text) {
  return failed(text, p_sqlite3_exec(db, text, NULL, NULL, NULL), db);
}

static int prepare(sqlite3 *db, const char *text, sqlite3_stmt **statement) {
  int code = p_sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  return failed(text, code, db);
}

// One connection, for one thread; NULL with words.
static sqlite3 *connect(const char *path) {
  sqlite3 *db = NULL;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (failed("open", p_sqlite3_open_v2(path, &db, flags, NULL), db) ||
      execute(db, "PRAGMA mmap_size=2147418112; PRAGMA cache_size=-65536;"
                  "PRAGMA journal_mode=WAL; PRAGMA temp_store=MEMORY")) {
    p_sqlite3_close_v2(db);
    return NULL;
  }
  p_sqlite3_busy_timeout(db, 60000);
  return db;
}

static peer_store *open_store(const char *path, const peer_options *options) {
  peer_store *store = calloc(1, sizeof *store);
  pthread_mutex_init(&store->mutex, NULL);
  snprintf(store->path, sizeof store->path, "%s", path);
  store->db = connect(path);
  if (store->db &&
      !execute(store->db, options->sync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF") &&
      !execute(store->db,
               "CREATE TABLE IF NOT EXISTS t(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID") &&
      !prepare(store->db, "INSERT INTO t VALUES(?1,?2) ON CONFLICT(k) DO UPDATE SET v=excluded.v",
               &store->put) &&
      !prepare(store->db, "DELETE FROM t WHERE k=?1", &store->remove))
    return store;
  if (store->db) p_sqlite3_close_v2(store->db);
  free(store);
  return NULL;
}

static int close_store(peer_store *store) {
  p_sqlite3_finalize(store->put);
  p_sqlite3_finalize(store->remove);
  int code = failed("close", p_sqlite3_close_v2(store->db), store->db);
  free(store);
  return code;
}

static int run(peer_store *store, sqlite3_stmt *statement, const char *what) {
  int code = failed(what, p_sqlite3_step(statement), store->db);
  p_sqlite3_reset(statement);
  return code;
}

static int put(peer_store *store, peer_bytes key, peer_bytes value) {
  pthread_mutex_lock(&store->mutex);
  p_sqlite3_bind_blob(store->put, 1, key.bytes, (int)key.length, SQLITE_STATIC);
  p_sqlite3_bind_blob(store->put, 2, value.bytes, (int)value.length, SQLITE_STATIC);
  int code = run(store, store->put, "put");
  pthread_mutex_unlock(&store->mutex);
  return code;
}

static int remove_key(peer_store *store, peer_bytes key) {
  pthread_mutex_lock(&store->mutex);
  p_sqlite3_bind_blob(store->remove, 1, key.bytes, (int)key.length, SQLITE_STATIC);
  int code = run(store, store->remove, "delete");
  pthread_mutex_unlock(&store->mutex);
  return code;
}

static int begin(peer_store *store) { return execute(store->db, "BEGIN IMMEDIATE"); }
static int commit(peer_store *store) { return execute(store->db, "COMMIT"); }

static int compact(peer_store *store) {
  return execute(store->db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
}

static peer_reader *open_reader(peer_store *store) {
  peer_reader *reader = calloc(1, sizeof *reader);
  reader->db = connect(store->path);
  if (reader->db && !prepare(reader->db, "SELECT v FROM t WHERE k=?1", &reader->get) &&
      !execute(reader->db, "BEGIN"))
    return reader;
  if (reader->db) p_sqlite3_close_v2(reader->db);
  free(reader);
  return NULL;
}

static int refresh(peer_reader *reader) {
  p_sqlite3_reset(reader->get);
  return execute(reader->db, "COMMIT; BEGIN");
}

static int get(peer_reader *reader, peer_bytes key, peer_bytes *value) {
  p_sqlite3_reset(reader->get);
  p_sqlite3_bind_blob(reader->get, 1, key.bytes, (int)key.length, SQLITE_STATIC);
  int code = p_sqlite3_step(reader->get);
  if (code == SQLITE_DONE) return 1;
  if (code != SQLITE_ROW) return failed("get", code, reader->db);
  value->bytes = p_sqlite3_column_blob(reader->get, 0);
  value->length = (size_t)p_sqlite3_column_bytes(reader->get, 0);
  return 0;
}

static int scan(peer_reader *reader, peer_bytes from, bool reads_values,
                bool (*visit)(void *, peer_bytes, peer_bytes), void *context) {
  sqlite3_stmt **place = reads_values ? &reader->scan : &reader->scan_keys;
  if (!*place && prepare(reader->db,
                         reads_values ? "SELECT k, v FROM t WHERE k>=?1 ORDER BY k"
                                      : "SELECT k FROM t WHERE k>=?1 ORDER BY k",
                         place))
    return -1;
  sqlite3_stmt *statement = *place;
  p_sqlite3_bind_blob(statement, 1, from.length ? from.bytes : "", (int)from.length,
                      SQLITE_STATIC);
  int code;
  while ((code = p_sqlite3_step(statement)) == SQLITE_ROW) {
    peer_bytes key = {p_sqlite3_column_blob(statement, 0),
                      (size_t)p_sqlite3_column_bytes(statement, 0)};
    peer_bytes value = {0};
    if (reads_values)
      value = (peer_bytes){p_sqlite3_column_blob(statement, 1),
                           (size_t)p_sqlite3_column_bytes(statement, 1)};
    if (!visit(context, key, value)) break;
  }
  code = failed("scan", code, reader->db);
  p_sqlite3_reset(statement);
  return code;
}

static void close_reader(peer_reader *reader) {
  p_sqlite3_finalize(reader->get);
  p_sqlite3_finalize(reader->scan);
  p_sqlite3_finalize(reader->scan_keys);
  p_sqlite3_close_v2(reader->db);
  free(reader);
}

const peer_api peer_sqlite = {
    .name = "sqlite",
    .title = "SQLite",
    .settings = "WAL, synchronous FULL or OFF, 2 GB of mmap_size, its most, 64 MB cache, WITHOUT "
                "ROWID, prepared statements; one statement a put, one read transaction for a row "
                "of reads",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .begin = begin, .commit = commit,
    .compact = compact, .reader = open_reader, .refresh = refresh, .get = get, .scan = scan,
    .close_reader = close_reader,
};
#else
PEER_MISSING(peer_sqlite, "sqlite", "SQLite", "libsqlite3-dev")
#endif
