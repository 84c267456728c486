#include "loading.h"

#if __has_include(<lmdb.h>)
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#define FUNCTIONS(F)                                                                               \
  F(mdb_env_create) F(mdb_env_set_mapsize) F(mdb_env_set_maxreaders) F(mdb_env_open)               \
  F(mdb_env_copyfd2) F(mdb_env_close) F(mdb_txn_begin) F(mdb_txn_commit) F(mdb_txn_abort)          \
  F(mdb_txn_reset) F(mdb_txn_renew) F(mdb_dbi_open) F(mdb_put) F(mdb_del) F(mdb_get)               \
  F(mdb_cursor_open) F(mdb_cursor_get) F(mdb_cursor_close) F(mdb_strerror) F(mdb_version)
FUNCTIONS(PEER_FUNCTION)

struct peer_store {
  MDB_env *env;
  MDB_dbi dbi;
  MDB_txn *batch;
  bool appends;
  // For opening it again.
  size_t map;
  unsigned int flags;
  char path[1024];
};

struct peer_reader {
  peer_store *store;
  MDB_txn *txn;
  MDB_cursor *cursor;
};

static const char *load(void) {
  void *library = peer_open_library("lmdb");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  return NULL;
}

static const char *version(void) {
  static char text[32];
  int major, minor, patch;
  p_mdb_version(&major, &minor, &patch);
  snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
  return text;
}

static int failed(const char *what, int code) {
  return code == 0 ? 0 : peer_fail(what, p_mdb_strerror(code));
}

static MDB_val val(peer_bytes bytes) {
  return (MDB_val){.mv_size = bytes.length, .mv_data = (void *)bytes.bytes};
}

static int open_table(peer_store *store) {
  MDB_txn *txn;
  int code = p_mdb_txn_begin(store->env, NULL, 0, &txn);
  if (code) return code;
  code = p_mdb_dbi_open(txn, NULL, MDB_CREATE, &store->dbi);
  if (code) {
    p_mdb_txn_abort(txn);
    return code;
  }
  return p_mdb_txn_commit(txn);
}

// Opens the environment and its table. On failure there is no environment.
static int open_environment(peer_store *store) {
  int code = p_mdb_env_create(&store->env);
  if (code) return failed("open", code);
  code = p_mdb_env_set_mapsize(store->env, store->map);
  if (!code) code = p_mdb_env_set_maxreaders(store->env, 512);
  if (!code) code = p_mdb_env_open(store->env, store->path, store->flags, 0644);
  if (!code) code = open_table(store);
  if (!code) return 0;
  p_mdb_env_close(store->env);
  store->env = NULL;
  return failed("open", code);
}

static peer_store *open_store(const char *path, const peer_options *options) {
  peer_store *store = calloc(1, sizeof *store);
  // Pages are half full after random inserts, and a commit copies the path to one.
  store->map = options->expected_bytes * 8 + ((size_t)1 << 30);
  store->flags = MDB_NOSUBDIR | MDB_NORDAHEAD | MDB_NOTLS;
  if (!options->sync) store->flags |= MDB_WRITEMAP | MDB_NOSYNC;
  store->appends = options->appends;
  snprintf(store->path, sizeof store->path, "%s", path);
  if (!open_environment(store)) return store;
  free(store);
  return NULL;
}

static int close_store(peer_store *store) {
  if (store->env) p_mdb_env_close(store->env);
  free(store);
  return 0;
}

// One operation in the batch, or in a transaction of its own.
static int change(peer_store *store, peer_bytes key, const peer_bytes *value) {
  MDB_txn *txn = store->batch;
  int code = txn ? 0 : p_mdb_txn_begin(store->env, NULL, 0, &txn);
  if (code) return failed("begin", code);
  MDB_val name = val(key), data = value ? val(*value) : (MDB_val){0};
  unsigned int flags = store->batch && store->appends ? MDB_APPEND : 0;
  code = value ? p_mdb_put(txn, store->dbi, &name, &data, flags)
               : p_mdb_del(txn, store->dbi, &name, NULL);
  if (store->batch) return failed("put", code);
  if (code) {
    p_mdb_txn_abort(txn);
    return failed("put", code);
  }
  return failed("commit", p_mdb_txn_commit(txn));
}

static int put(peer_store *store, peer_bytes key, peer_bytes value) {
  return change(store, key, &value);
}

static int remove_key(peer_store *store, peer_bytes key) { return change(store, key, NULL); }

static int begin(peer_store *store) {
  return failed("begin", p_mdb_txn_begin(store->env, NULL, 0, &store->batch));
}

static int commit(peer_store *store) {
  MDB_txn *txn = store->batch;
  store->batch = NULL;
  return failed("commit", p_mdb_txn_commit(txn));
}

// As `mdb_copy -c`: a copy without free pages, in the order of the keys, takes the place of the
// file. Its pages are in the kernel's memory, where `mdb_env_copy2` would write beside it.
static int compact(peer_store *store) {
  char copy[sizeof store->path + 8];
  snprintf(copy, sizeof copy, "%s.copy", store->path);
  int file = open(copy, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) return peer_fail("copy", strerror(errno));
  int code = p_mdb_env_copyfd2(store->env, file, MDB_CP_COMPACT);
  close(file);
  if (code) return failed("copy", code);
  p_mdb_env_close(store->env);
  store->env = NULL;
  if (rename(copy, store->path)) return peer_fail("rename", strerror(errno));
  return open_environment(store);
}

static peer_reader *open_reader(peer_store *store) {
  peer_reader *reader = calloc(1, sizeof *reader);
  reader->store = store;
  if (!failed("begin", p_mdb_txn_begin(store->env, NULL, MDB_RDONLY, &reader->txn))) return reader;
  free(reader);
  return NULL;
}

static void close_cursor(peer_reader *reader) {
  if (reader->cursor) p_mdb_cursor_close(reader->cursor);
  reader->cursor = NULL;
}

static int refresh(peer_reader *reader) {
  close_cursor(reader);
  p_mdb_txn_reset(reader->txn);
  return failed("renew", p_mdb_txn_renew(reader->txn));
}

static int get(peer_reader *reader, peer_bytes key, peer_bytes *value) {
  MDB_val name = val(key), data;
  int code = p_mdb_get(reader->txn, reader->store->dbi, &name, &data);
  if (code == MDB_NOTFOUND) return 1;
  if (code) return failed("get", code);
  *value = (peer_bytes){data.mv_data, data.mv_size};
  return 0;
}

static int scan(peer_reader *reader, peer_bytes from, bool reads_values,
                bool (*visit)(void *, peer_bytes, peer_bytes), void *context) {
  // The cursor returns the address of a value, which costs nothing.
  (void)reads_values;
  int code = 0;
  // One cursor serves all scans of a reader.
  if (!reader->cursor)
    code = p_mdb_cursor_open(reader->txn, reader->store->dbi, &reader->cursor);
  if (code) return failed("cursor", code);
  MDB_val name = val(from), data;
  code = p_mdb_cursor_get(reader->cursor, &name, &data, from.length ? MDB_SET_RANGE : MDB_FIRST);
  while (!code && visit(context, (peer_bytes){name.mv_data, name.mv_size},
                        (peer_bytes){data.mv_data, data.mv_size}))
    code = p_mdb_cursor_get(reader->cursor, &name, &data, MDB_NEXT);
  return code == MDB_NOTFOUND ? 0 : failed("scan", code);
}

static void close_reader(peer_reader *reader) {
  close_cursor(reader);
  p_mdb_txn_abort(reader->txn);
  free(reader);
}

const peer_api peer_lmdb = {
    .name = "lmdb",
    .title = "LMDB",
    .settings = "NORDAHEAD; without sync NOSYNC and WRITEMAP; one transaction a put, APPEND for "
                "batches in key order; one transaction kept for a row of reads and renewed where "
                "others write; compacted by a copy with CP_COMPACT",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .begin = begin, .commit = commit,
    .compact = compact, .reader = open_reader, .refresh = refresh, .get = get, .scan = scan,
    .close_reader = close_reader,
};
#else
PEER_MISSING(peer_lmdb, "lmdb", "LMDB", "liblmdb-dev")
#endif
