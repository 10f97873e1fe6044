/* A column of numbers of a Parquet file, or of texts as indices of their dictionary, page by page.

   A page is decompressed in blocks that fit the processor's cache, not all at once. The bytes may be
   anything: none is used beyond their end. For a page that is not understood the caller has another
   program read the file. */

#include <stdint.h>
#include <string.h>

#include "processors.h"

typedef struct {
    const uint8_t *at, *end;
    int failed;
} Bytes;

static uint8_t next_byte(Bytes *bytes) {
    if (bytes->at < bytes->end) return *bytes->at++;
    bytes->failed = 1;
    return 0;
}

static void advance(Bytes *bytes, uint64_t n) {
    if (n > (uint64_t)(bytes->end - bytes->at))
        bytes->failed = 1;
    else
        bytes->at += n;
}

/* An unsigned integer in groups of seven bits, the lowest first. */
static uint64_t varint(Bytes *bytes) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte = next_byte(bytes);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    bytes->failed = 1;
    return 0;
}

static int64_t zigzag(Bytes *bytes) {
    uint64_t value = varint(bytes);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Thrift's compact protocol. */
enum { STOP, TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };
enum { DEEPEST = 8 };

/* The next field of a struct, or STOP: its type; its number is written. */
static int next_field(Bytes *bytes, int64_t *number) {
    uint8_t head = next_byte(bytes);
    if (bytes->failed || !head) return STOP;
    *number = head >> 4 ? (int64_t)((uint64_t)*number + (head >> 4)) : zigzag(bytes);
    return head & 0x0f;
}

static void skip(Bytes *bytes, int type, int depth) {
    if (depth > DEEPEST) bytes->failed = 1;
    if (bytes->failed) return;
    if (type == TRUE || type == FALSE) return;
    if (type == I16 || type == I32 || type == I64) {
        varint(bytes);
    } else if (type == I8) {
        advance(bytes, 1);
    } else if (type == DOUBLE) {
        advance(bytes, 8);
    } else if (type == BINARY) {
        advance(bytes, varint(bytes));
    } else if (type == STRUCT) {
        int64_t number = 0;
        for (int field; (field = next_field(bytes, &number)) != STOP;) skip(bytes, field, depth + 1);
    } else {
        bytes->failed = 1; /* lists and maps, which page headers do not have */
    }
}

typedef struct {
    int64_t type, size, stored_size, values, encoding, level_encoding, is_checked, length;
} Header;

enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2 };

/* Read the header of a page; −1 for a number that it does not have. Returns 0, or −1. */
static int read_header(const uint8_t *start, int64_t n, Header *header) {
    Bytes bytes = {start, start + n, 0};
    int64_t number = 0;
    *header = (Header){-1, -1, -1, -1, -1, -1, 0, 0};
    for (int type; (type = next_field(&bytes, &number)) != STOP;) {
        int64_t *of_page[] = {&header->type, &header->size, &header->stored_size};
        if (number >= 1 && number <= 3 && type == I32) {
            *of_page[number - 1] = zigzag(&bytes);
        } else if ((number == 5 || number == 7) && type == STRUCT) {
            int64_t *of_values[] = {&header->values, &header->encoding, &header->level_encoding};
            int64_t inner = 0;
            for (int of; (of = next_field(&bytes, &inner)) != STOP;) {
                if (inner >= 1 && inner <= 3 && of == I32)
                    *of_values[inner - 1] = zigzag(&bytes);
                else
                    skip(&bytes, of, 1);
            }
        } else {
            header->is_checked |= number == 4;
            skip(&bytes, type, 1);
        }
    }
    header->length = bytes.at - start;
    return bytes.failed ? -1 : 0;
}

enum { BLOCK = 65536, MOST_STORED = BLOCK + BLOCK / 6 + 64, MARGIN = 64, CHUNK = 1024 };

/* Decompress a block of Snappy's format, which has `size` bytes; encoders begin anew after 65,536.
   Returns 0, or −1. */
static int decompress_snappy(Bytes *bytes, uint8_t *out, int64_t size) {
    uint8_t *to = out, *end = out + size;
    while (to < end) {
        uint8_t tag = next_byte(bytes);
        int extra = tag & 3 ? (tag & 3) == 3 ? 4 : tag & 3 : (tag >> 2) < 60 ? 0 : (tag >> 2) - 59;
        uint64_t number = 0, length = (uint64_t)(tag >> 2) + 1;
        for (int i = 0; i < extra; i++) number |= (uint64_t)next_byte(bytes) << (8 * i);
        if (bytes->failed) return -1;
        if (!(tag & 3)) {
            if (extra) length = number + 1;
            const uint8_t *from = bytes->at;
            if (length > (uint64_t)(end - to)) return -1;
            advance(bytes, length);
            if (bytes->failed) return -1;
            memcpy(to, from, length);
            to += length;
            continue;
        }
        if ((tag & 3) == 1) {
            length = ((tag >> 2) & 7) + 4;
            number |= (uint64_t)(tag >> 5) << 8;
        }
        if (!number || number > (uint64_t)(to - out) || length > (uint64_t)(end - to)) return -1;
        const uint8_t *from = to - number;
        if (number >= 8 && (uint64_t)(end - to) >= length + 8) {
            for (uint64_t i = 0; i < length; i += 8) memcpy(to + i, from + i, 8);
        } else {
            for (uint64_t i = 0; i < length; i++) to[i] = from[i];
        }
        to += length;
    }
    return 0;
}

/* The bytes of a block that is stored as they are, or NULL. */
static const uint8_t *stored_block(Bytes bytes, uint64_t size) {
    uint8_t tag = next_byte(&bytes);
    uint64_t length = 0;
    int extra = (tag >> 2) - 59;
    if (tag & 3 || extra < 1) return NULL;
    for (int i = 0; i < extra; i++) length |= (uint64_t)next_byte(&bytes) << (8 * i);
    const uint8_t *from = bytes.at;
    if (length + 1 != size) return NULL;
    advance(&bytes, size);
    return bytes.failed ? NULL : from;
}

/* Numbers of `width` bits in groups of eight, packed without gaps, little-endian as the processor has
   to be. Up to eight bytes beyond them are read, and not used. */
ANY_PROCESSOR void unpack_groups(const uint8_t *at, int width, int64_t groups, uint32_t *numbers) {
    uint64_t mask = ((uint64_t)1 << width) - 1, word;
    for (; groups; groups--, at += width, numbers += 8) {
        if (width <= 8) {
            memcpy(&word, at, sizeof word);
            for (int i = 0; i < 8; i++) numbers[i] = (uint32_t)(word >> (i * width) & mask);
        } else {
            for (int i = 0; i < 8; i++) {
                memcpy(&word, at + i * width / 8, sizeof word);
                numbers[i] = (uint32_t)(word >> (i * width % 8) & mask);
            }
        }
    }
}

/* The same; the compiler has a loop of its own for each of the usual widths. */
ANY_PROCESSOR void unpack_widths(const uint8_t *at, int width, int64_t groups, uint32_t *numbers) {
#define OF_WIDTH(WIDTH)                                                                            \
    case WIDTH: unpack_groups(at, WIDTH, groups, numbers); break;
    switch (width) {
        OF_WIDTH(1) OF_WIDTH(2) OF_WIDTH(3) OF_WIDTH(4) OF_WIDTH(5) OF_WIDTH(6) OF_WIDTH(7)
        OF_WIDTH(8) OF_WIDTH(9) OF_WIDTH(10) OF_WIDTH(11) OF_WIDTH(12) OF_WIDTH(13) OF_WIDTH(14)
        OF_WIDTH(15) OF_WIDTH(16) OF_WIDTH(17) OF_WIDTH(18)
        default: unpack_groups(at, width, groups, numbers);
    }
}

WITH_AVX2 void unpack_with_avx2(const uint8_t *at, int width, int64_t groups, uint32_t *numbers) {
    unpack_widths(at, width, groups, numbers);
}

static void unpack(const uint8_t *at, int width, int64_t groups, uint32_t *numbers) {
    if (has_avx2())
        unpack_with_avx2(at, width, groups, numbers);
    else
        unpack_widths(at, width, groups, numbers);
}

/* Values of a dictionary of `entries` values of `width` bytes; without a width, the indices. Returns
   0, or −1 for an index beyond it. */
ANY_PROCESSOR int look_up(const uint32_t *indices, int64_t n, const uint8_t *dictionary,
                          int64_t entries, int64_t width, uint8_t *to) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) largest = indices[i] > largest ? indices[i] : largest;
    if (n && largest >= entries) return -1;
#define FROM_DICTIONARY(SIZE)                                                                      \
    case SIZE:                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            memcpy(to + i * SIZE, dictionary + (uint64_t)indices[i] * SIZE, SIZE);                 \
        break;
    switch (width) {
        FROM_DICTIONARY(4) FROM_DICTIONARY(8) FROM_DICTIONARY(16)
        default: memcpy(to, indices, (size_t)n * sizeof *indices);
    }
    return 0;
}

WITH_AVX2 int look_up_with_avx2(const uint32_t *indices, int64_t n, const uint8_t *dictionary,
                                int64_t entries, int64_t width, uint8_t *to) {
    return look_up(indices, n, dictionary, entries, width, to);
}

/* Where the decoding of a column of a row group is. The caller owns all memory, and gives more of it,
   or more bytes, where read_values asks for them.

   stored: (size,), bytes of the file, of which those before `at` are done.
   left: number of values on the pages that follow.
   nullable: whether there are definition levels.
   compression: of the pages.
   form: of the values; stored_width, width: bytes of a value as it is stored, and as it is written.
   dictionary: (entries,), values as they are written, unless they are texts; entries is −1 before its
       page.
   page: (room,), for a page that is decompressed as a whole. The caller, if it has to decompress, sets
       page_size, which is −1 otherwise.
   numbers: (numbers_room,), the page that has the dictionary, if its values are written as they are
       stored; it and `page` change places.
   window: (MARGIN + BLOCK,), for a block of a page.
   levels: (levels_room,), for the definition levels of a page, and eight bytes.
   saw_nulls: set if values that were taken may be null.
   wanted: see below.
   body: (body_size,), bytes of the page that are not decoded yet.
   to: (n,), where values are written, of which `taken` are there; 0 for null. The caller lets n grow.
   to_bits: (n / 8, rounded up), set for values that are not null, if saw_nulls; else not written.

   The others are of this file alone: of the page, whether its levels are known; the bytes that are not
   in the body yet, and what they take in the file; its rows that are in no chunk yet; the run of levels
   and the run of indices. A chunk is some rows of which all, none or some are null: how many are left
   and are not null, and, of the last kind, the values that are there. `partial` is the number of bytes
   of the next value that are written. */
typedef struct {
    const uint8_t *stored;
    int64_t size, at, left;
    int64_t nullable, compression, form, stored_width, width;
    const uint8_t *dictionary;
    int64_t entries;
    uint8_t *page;
    int64_t room, page_size;
    uint8_t *numbers;
    int64_t numbers_room;
    uint8_t *window, *levels;
    int64_t levels_room, saw_nulls, wanted;
    const uint8_t *body;
    int64_t body_size;
    uint8_t *to, *to_bits;
    int64_t n, taken;

    int64_t phase, encoding, rest, stored_rest, rows, levels_size, levels_done;
    Bytes level_bytes;
    int64_t level_run, level_packed, level, level_bit;
    int64_t run, packed, bits_per_index, waiting;
    uint32_t index, eight[8];
    int64_t chunk, chunk_rows, valid, found, partial;
    uint8_t bits[CHUNK / 8 + 8], values[CHUNK * 16 + 16];
} Cursor;

int64_t cursor_size(void) { return sizeof(Cursor); }

enum { UNCOMPRESSED, SNAPPY, OTHER_COMPRESSION };
enum { PLAIN = 0, PLAIN_DICTIONARY = 2, RLE = 3, RLE_DICTIONARY = 8 };
/* Texts, of which there are only indices; values that are written as they are stored; integers that
   are written as 16 bytes, the lowest first, of which they have fewer or the highest first. */
enum { TEXT, AS_STORED, INTEGER, BIG_ENDIAN };
enum { HEADER, LEVELS_SIZE, LEVELS_BYTES, VALUES };

/* What is left to the caller:
   TAKEN: nothing, all values were taken.
   BYTES: to give `wanted` bytes from `at` on, or some more if that is 0.
   ROOM, LEVELS: to give memory for `wanted` bytes of a page, or of its levels.
   DECOMPRESS: to decompress the `body` into `wanted` bytes of the page.
   ENTRIES: to take `wanted` entries of the dictionary from the `body`, and set `entries`.
   NOT_UNDERSTOOD: to have another program read what follows. */
enum { TAKEN, BYTES, ROOM, LEVELS, DECOMPRESS, ENTRIES, NOT_UNDERSTOOD };

static int wants(Cursor *cursor, int status, int64_t wanted) {
    cursor->wanted = wanted;
    return status;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void use(Cursor *cursor, int64_t n) {
    cursor->body += n;
    cursor->body_size -= n;
}

/* Have `n` bytes of the page in the body, up to MARGIN; fewer only at the end of the page. */
static int provide(Cursor *cursor, int64_t n) {
    while (cursor->body_size < n && cursor->rest) {
        int64_t before = cursor->body_size, size = least(cursor->rest, BLOCK);
        uint8_t *block = cursor->window + MARGIN;
        memmove(block - before, cursor->body, (size_t)before);
        cursor->body = block - before;
        int64_t need = least(cursor->stored_rest,
                             cursor->compression == UNCOMPRESSED ? MARGIN : MOST_STORED);
        if (cursor->size - cursor->at < need) return wants(cursor, BYTES, need);
        int64_t there = least(cursor->size - cursor->at, cursor->stored_rest);
        const uint8_t *start = cursor->stored + cursor->at, *as_stored;
        Bytes bytes = {start, start + there, 0};
        if (cursor->compression == UNCOMPRESSED) {
            size = least(size, there);
            as_stored = start;
            advance(&bytes, (uint64_t)size);
        } else if ((as_stored = stored_block(bytes, (uint64_t)size))) {
            bytes.at = as_stored + size;
        } else if (decompress_snappy(&bytes, block, size)) {
            return NOT_UNDERSTOOD;
        }
        if (as_stored && before) memcpy(block, as_stored, (size_t)size);
        if (as_stored && !before) cursor->body = as_stored;
        cursor->body_size = before + size;
        cursor->at += bytes.at - start;
        cursor->stored_rest -= bytes.at - start;
        cursor->rest -= size;
        if (bytes.failed || !cursor->rest != !cursor->stored_rest) return NOT_UNDERSTOOD;
    }
    return TAKEN;
}

/* Keep a page with a dictionary, and decompress the next one to where the last dictionary was. */
static int keep_dictionary(Cursor *cursor, int64_t entries) {
    uint8_t *page = cursor->page;
    int64_t room = cursor->room;
    if (entries > cursor->body_size / cursor->width) return NOT_UNDERSTOOD;
    if (cursor->body != page) {
        if (cursor->body_size > room) return wants(cursor, ROOM, cursor->body_size);
        memcpy(page, cursor->body, (size_t)cursor->body_size);
    }
    cursor->page = cursor->numbers;
    cursor->room = cursor->numbers_room;
    cursor->dictionary = cursor->numbers = page;
    cursor->numbers_room = room;
    cursor->entries = entries;
    return TAKEN;
}

/* Begin with the next page of data, after the dictionary. */
static int next_header(Cursor *cursor) {
    Header header;
    const uint8_t *start = cursor->stored + cursor->at;
    int64_t size = cursor->size - cursor->at;
    if (!cursor->left || cursor->rest) return NOT_UNDERSTOOD;
    if (read_header(start, size, &header)) return wants(cursor, BYTES, 0);
    /* Arrow verifies checksums. */
    if (header.size < 0 || header.size > INT32_MAX || header.stored_size < 0 ||
        header.stored_size > INT32_MAX || header.values < 0 || header.is_checked)
        return NOT_UNDERSTOOD;
    int is_data = header.type == DATA_PAGE, is_plain = header.encoding == PLAIN;
    int by_blocks = is_data && cursor->compression != OTHER_COMPRESSION;
    int64_t length = header.length + (by_blocks ? least(header.stored_size, 16) : header.stored_size);
    if (size < length) return wants(cursor, BYTES, length);
    Bytes bytes = {start + header.length, start + length, 0};
    cursor->body = bytes.at;
    cursor->body_size = by_blocks ? 0 : header.stored_size;
    if (cursor->compression == UNCOMPRESSED && header.size != header.stored_size)
        return NOT_UNDERSTOOD;
    if (cursor->compression == SNAPPY && varint(&bytes) != (uint64_t)header.size)
        return NOT_UNDERSTOOD;
    if (cursor->compression == OTHER_COMPRESSION && cursor->page_size != header.size)
        return wants(cursor, DECOMPRESS, header.size);
    if (!by_blocks && cursor->compression != UNCOMPRESSED) {
        if (cursor->compression == SNAPPY) {
            if (header.size > cursor->room) return wants(cursor, ROOM, header.size);
            for (int64_t done = 0; done < header.size; done += BLOCK)
                if (decompress_snappy(&bytes, cursor->page + done, least(header.size - done, BLOCK)))
                    return NOT_UNDERSTOOD;
        }
        cursor->body = cursor->page;
        cursor->body_size = header.size;
    }
    if (header.type == DICTIONARY_PAGE) {
        int status;
        if (cursor->entries >= 0 || !(is_plain || header.encoding == PLAIN_DICTIONARY))
            return NOT_UNDERSTOOD;
        if (cursor->form != AS_STORED)
            status = wants(cursor, ENTRIES, header.values);
        else if ((status = keep_dictionary(cursor, header.values)))
            return status;
        cursor->at += length;
        cursor->page_size = -1;
        return status == TAKEN ? next_header(cursor) : status;
    }
    int is_indexed = header.encoding == RLE_DICTIONARY || header.encoding == PLAIN_DICTIONARY;
    if (!is_data || header.values < 1 || header.values > cursor->left ||
        (is_indexed ? cursor->entries < 0 : !is_plain || cursor->form == TEXT) ||
        (cursor->nullable && header.level_encoding != RLE))
        return NOT_UNDERSTOOD;
    cursor->encoding = is_plain ? PLAIN : RLE_DICTIONARY;
    cursor->rows = header.values;
    cursor->left -= header.values;
    cursor->rest = by_blocks ? header.size : 0;
    cursor->stored_rest = header.stored_size - (by_blocks ? bytes.at - start - header.length : 0);
    cursor->at += by_blocks ? bytes.at - start : length;
    cursor->page_size = cursor->bits_per_index = -1;
    cursor->run = cursor->waiting = cursor->level_run = cursor->levels_done = 0;
    return TAKEN;
}

/* Begin with the next page of data, and have its levels. */
static int next_page(Cursor *cursor) {
    int status;
    if (cursor->phase == HEADER) {
        if ((status = next_header(cursor))) return status;
        cursor->phase = cursor->nullable ? LEVELS_SIZE : VALUES;
    }
    if (cursor->phase == LEVELS_SIZE) {
        uint32_t size;
        if ((status = provide(cursor, sizeof size))) return status;
        if (cursor->body_size < (int64_t)sizeof size) return NOT_UNDERSTOOD;
        memcpy(&size, cursor->body, sizeof size);
        if (size > cursor->body_size - (int64_t)sizeof size + cursor->rest) return NOT_UNDERSTOOD;
        if (size + 8 > cursor->levels_room) return wants(cursor, LEVELS, size + 8);
        use(cursor, sizeof size);
        cursor->levels_size = size;
        cursor->phase = LEVELS_BYTES;
    }
    if (cursor->phase == LEVELS_BYTES) {
        while (cursor->levels_done < cursor->levels_size) {
            if ((status = provide(cursor, 1))) return status;
            int64_t some = least(cursor->body_size, cursor->levels_size - cursor->levels_done);
            memcpy(cursor->levels + cursor->levels_done, cursor->body, (size_t)some);
            cursor->levels_done += some;
            use(cursor, some);
        }
        cursor->level_bytes = (Bytes){cursor->levels, cursor->levels + cursor->levels_size, 0};
    }
    cursor->phase = HEADER;
    return TAKEN;
}

/* Begin with the next run of levels: of one that is repeated, or packed without gaps. */
static int next_level_run(Cursor *cursor) {
    Bytes *bytes = &cursor->level_bytes;
    uint64_t head = varint(bytes), run = head >> 1;
    if (bytes->failed || !run || run > (uint64_t)1 << 40) return NOT_UNDERSTOOD;
    cursor->level_packed = head & 1;
    cursor->level_run = (int64_t)run * (cursor->level_packed ? 8 : 1);
    if (cursor->level_packed) {
        cursor->level_bit = 8 * (bytes->at - cursor->levels);
        advance(bytes, run);
    } else {
        cursor->level = next_byte(bytes);
    }
    return bytes->failed || cursor->level > 1 ? NOT_UNDERSTOOD : TAKEN;
}

/* Add up to `n` levels of a run to the bits of a chunk, which has `rows` of them. Returns how many. */
static int64_t add_levels(Cursor *cursor, int64_t rows, int64_t n) {
    uint64_t levels = cursor->level ? UINT64_MAX : 0, bits;
    uint8_t *to = cursor->bits + rows / 8;
    n = least(least(n, cursor->level_run), 56);
    if (cursor->level_packed) {
        memcpy(&levels, cursor->levels + cursor->level_bit / 8, sizeof levels);
        levels >>= cursor->level_bit % 8;
        cursor->level_bit += n;
    }
    memcpy(&bits, to, sizeof bits);
    bits |= (levels & (((uint64_t)1 << n) - 1)) << rows % 8;
    memcpy(to, &bits, sizeof bits);
    cursor->level_run -= n;
    return n;
}

static int64_t count_bits(const uint8_t *bits) {
    int64_t count = 0;
    for (int i = 0; i < CHUNK / 8; i += 8) {
        uint64_t word;
        memcpy(&word, bits + i, sizeof word);
        count += __builtin_popcountll(word);
    }
    return count;
}

/* Begin with the next rows of the page: those of a long run, or up to CHUNK of short ones. */
static int next_chunk(Cursor *cursor) {
    int64_t rows = cursor->rows, valid = rows;
    if (cursor->nullable) {
        int64_t most = least(rows, CHUNK);
        memset(cursor->bits, 0, sizeof cursor->bits);
        for (rows = 0; rows < most;) {
            if (!cursor->level_run && next_level_run(cursor)) return NOT_UNDERSTOOD;
            int is_long = !cursor->level_packed && cursor->level_run >= CHUNK / 4;
            if (is_long && rows) break;
            if (is_long) {
                most = rows = least(cursor->level_run, cursor->rows);
                cursor->level_run -= rows;
                valid = cursor->level ? rows : 0;
            } else {
                rows += add_levels(cursor, rows, most - rows);
                valid = -1;
            }
        }
    }
    if (valid < 0) valid = count_bits(cursor->bits);
    cursor->rows -= rows;
    cursor->chunk = cursor->chunk_rows = rows;
    cursor->valid = valid;
    cursor->found = 0;
    return TAKEN;
}

/* Write `n` integers as 16 bytes. */
static void widen(const Cursor *cursor, const uint8_t *from, int64_t n, uint8_t *to) {
    int64_t width = cursor->stored_width;
    for (; n; n--, from += width, to += 16) {
        int64_t low = 0;
        if (cursor->form == BIG_ENDIAN) {
            uint64_t parts[2];
            parts[0] = parts[1] = from[0] & 0x80 ? UINT64_MAX : 0;
            for (int64_t i = 0; i < width; i++) {
                parts[1] = parts[1] << 8 | parts[0] >> 56;
                parts[0] = parts[0] << 8 | from[i];
            }
            memcpy(to, parts, sizeof parts);
            continue;
        }
        if (width == 4) {
            int32_t number;
            memcpy(&number, from, sizeof number);
            low = number;
        } else {
            memcpy(&low, from, sizeof low);
        }
        int64_t high = low < 0 ? -1 : 0;
        memcpy(to, &low, sizeof low);
        memcpy(to + 8, &high, sizeof high);
    }
}

/* Values of a page that are not in a dictionary. */
static int plain_values(Cursor *cursor, int64_t n, int64_t *taken, uint8_t *to) {
    int status;
    while (*taken < n) {
        int64_t some, is_as_stored = cursor->form == AS_STORED;
        if ((status = provide(cursor, is_as_stored ? 1 : cursor->stored_width))) return status;
        if (is_as_stored) {
            int64_t width = cursor->width;
            some = least(cursor->body_size, (n - *taken) * width - cursor->partial);
            if (!some) return NOT_UNDERSTOOD;
            memcpy(to + *taken * width + cursor->partial, cursor->body, (size_t)some);
            *taken += (cursor->partial + some) / width;
            cursor->partial = (cursor->partial + some) % width;
            use(cursor, some);
        } else {
            some = least(cursor->body_size / cursor->stored_width, n - *taken);
            if (!some) return NOT_UNDERSTOOD;
            widen(cursor, cursor->body, some, to + *taken * 16);
            *taken += some;
            use(cursor, some * cursor->stored_width);
        }
    }
    return TAKEN;
}

/* Indices of a page, in runs: of one index that is repeated, or packed without gaps. */
static int unpack_indices(Cursor *cursor, int64_t n, int64_t *taken, uint32_t *indices) {
    int status;
    if (cursor->bits_per_index < 0) {
        if ((status = provide(cursor, 1))) return status;
        if (!cursor->body_size || *cursor->body > 32) return NOT_UNDERSTOOD;
        cursor->bits_per_index = *cursor->body;
        use(cursor, 1);
    }
    int64_t width = cursor->bits_per_index;
    while (*taken < n) {
        int64_t some = n - *taken;
        if (cursor->waiting) {
            some = least(some, cursor->waiting);
            memcpy(indices + *taken, cursor->eight + 8 - cursor->waiting, (size_t)some * 4);
            cursor->waiting -= some;
            *taken += some;
        } else if (!cursor->run) {
            if ((status = provide(cursor, 16))) return status;
            Bytes bytes = {cursor->body, cursor->body + cursor->body_size, 0};
            uint64_t head = varint(&bytes), run = head >> 1;
            cursor->packed = head & 1;
            cursor->index = 0;
            for (int i = 0; !cursor->packed && i < (width + 7) / 8; i++)
                cursor->index |= (uint32_t)next_byte(&bytes) << (8 * i);
            if (bytes.failed || !run || run > (uint64_t)1 << 40) return NOT_UNDERSTOOD;
            cursor->run = (int64_t)run * (cursor->packed ? 8 : 1);
            use(cursor, bytes.at - cursor->body);
        } else if (!cursor->packed) {
            some = least(some, cursor->run);
            for (int64_t i = 0; i < some; i++) indices[*taken + i] = cursor->index;
            cursor->run -= some;
            *taken += some;
        } else {
            if ((status = provide(cursor, width))) return status;
            int64_t groups = least(cursor->run, some) / 8, beyond = cursor->body_size - 8;
            if (cursor->body_size < width) return NOT_UNDERSTOOD;
            groups = least(groups, width ? beyond / width : beyond);
            if (groups > 0) {
                unpack(cursor->body, (int)width, groups, indices + *taken);
                *taken += 8 * groups;
            } else { /* the last ones of the body, or of those that are taken */
                uint8_t last[40];
                memcpy(last, cursor->body, (size_t)width);
                unpack(last, (int)width, groups = 1, cursor->eight);
                cursor->waiting = 8;
            }
            cursor->run -= 8 * groups;
            use(cursor, groups * width);
        }
    }
    return TAKEN;
}

/* Values of a page that are in the dictionary, or, of texts, their indices. */
static int indexed_values(Cursor *cursor, int64_t n, int64_t *taken, uint8_t *to) {
    int status = TAKEN;
    uint32_t indices[CHUNK];
    while (*taken < n && status == TAKEN) {
        int64_t some = 0;
        status = unpack_indices(cursor, least(n - *taken, CHUNK), &some, indices);
        uint8_t *next = to + *taken * cursor->width;
        int64_t width = cursor->form == TEXT ? 0 : cursor->width;
        if ((has_avx2() ? look_up_with_avx2 : look_up)(indices, some, cursor->dictionary,
                                                       cursor->entries, width, next))
            return NOT_UNDERSTOOD;
        *taken += some;
    }
    return status;
}

static int values(Cursor *cursor, int64_t n, int64_t *taken, uint8_t *to) {
    return cursor->encoding == PLAIN ? plain_values(cursor, n, taken, to)
                                     : indexed_values(cursor, n, taken, to);
}

/* Put the values of a chunk at the places of its rows that are not null, the last ones first, without
   a branch that the processor would have to guess. */
static void spread(Cursor *cursor) {
    int64_t next = cursor->valid;
    uint8_t *values = cursor->values;
#define OF_WORDS(WORD, COUNT)                                                                      \
    case sizeof(WORD) * COUNT:                                                                     \
        for (int64_t i = cursor->chunk_rows; i--;) {                                               \
            WORD value[COUNT], is_valid = cursor->bits[i / 8] >> (i % 8) & 1;                      \
            next -= (int64_t)is_valid;                                                             \
            memcpy(value, values + next * (int64_t)sizeof value, sizeof value);                    \
            for (int j = 0; j < COUNT; j++) value[j] &= (WORD)0 - is_valid;                        \
            memcpy(values + i * (int64_t)sizeof value, value, sizeof value);                       \
        }                                                                                          \
        break;
    switch (cursor->width) { OF_WORDS(uint32_t, 1) OF_WORDS(uint64_t, 1) OF_WORDS(uint64_t, 2) }
}

/* Write which rows of the chunk, from the first one on, are not null. */
static void copy_bits(const Cursor *cursor, int64_t first, int64_t n, uint8_t *to, int64_t at) {
    int is_all = cursor->valid == cursor->chunk_rows, is_some = cursor->valid && !is_all;
    for (int64_t i = 0; i < n;) {
        int shift = (int)((first + i) % 8);
        const uint8_t *byte = cursor->bits + (first + i) / 8;
        if ((at + i) % 8 == 0 && n - i >= 8) {
            to[(at + i) / 8] =
                !is_some ? (is_all ? 0xff : 0)
                         : (uint8_t)(byte[0] >> shift | (shift ? byte[1] << (8 - shift) : 0));
            i += 8;
        } else {
            int bit = is_some ? byte[0] >> shift & 1 : is_all, place = (int)((at + i) % 8);
            uint8_t others = (uint8_t)(to[(at + i) / 8] & ~(1 << place));
            to[(at + i) / 8] = (uint8_t)(others | bit << place);
            i++;
        }
    }
}

/* Begin with a row group, of which no bytes are there. */
void start_rows(Cursor *cursor, int64_t rows, int64_t compression) {
    cursor->left = rows;
    cursor->compression = compression;
    cursor->entries = cursor->page_size = -1;
    cursor->size = cursor->at = cursor->body_size = cursor->rest = 0;
    cursor->rows = cursor->chunk = cursor->partial = 0;
    cursor->phase = HEADER;
}

/* Take the next values of a column, or the indices of texts. Returns what is left to the caller. */
static int read_values(Cursor *cursor) {
    int64_t n = cursor->n, width = cursor->width;
    while (cursor->taken < n) {
        int status = TAKEN;
        if (!cursor->chunk) {
            if (!cursor->rows || cursor->phase != HEADER) status = next_page(cursor);
            if (status == TAKEN) status = next_chunk(cursor);
            if (status != TAKEN) return status;
        }
        int64_t first = cursor->chunk_rows - cursor->chunk, before = cursor->taken;
        int64_t end = least(n, before + cursor->chunk);
        if (cursor->valid == cursor->chunk_rows) {
            status = values(cursor, end, &cursor->taken, cursor->to);
        } else {
            if (cursor->valid && cursor->found < cursor->valid) {
                status = values(cursor, cursor->valid, &cursor->found, cursor->values);
                if (status != TAKEN) return status;
                spread(cursor);
            }
            size_t size = (size_t)((end - before) * width);
            if (cursor->valid)
                memcpy(cursor->to + before * width, cursor->values + first * width, size);
            else
                memset(cursor->to + before * width, 0, size);
            cursor->taken = end;
            if (!cursor->saw_nulls) {
                memset(cursor->to_bits, 0xff, (size_t)(before + 7) / 8);
                cursor->saw_nulls = 1;
            }
        }
        if (cursor->saw_nulls)
            copy_bits(cursor, first, cursor->taken - before, cursor->to_bits, before);
        cursor->chunk -= cursor->taken - before;
        if (status != TAKEN) return status;
    }
    return TAKEN;
}

/* Take the next values of columns, from the one with number `*column` on, which is counted on.
   Returns what is left to the caller for this column, who then calls again. */
int read_columns(Cursor *const *cursors, int64_t columns, int64_t *column) {
    for (; *column < columns; ++*column) {
        int status = read_values(cursors[*column]);
        if (status != TAKEN) return status;
    }
    return TAKEN;
}

/* Write the entries of a dictionary page of integers, of which there are `n` or more in the body.

   to: (n,), written. */
void unpack_entries(const Cursor *cursor, int64_t n, uint8_t *to) {
    widen(cursor, cursor->body, n, to);
}

/* The texts of a dictionary page, each after its size in four bytes, one after another. Returns the
   number of their bytes, or −1.

   ends: (n + 1,), written: 0, and where each text ends.
   texts: as many bytes as the page, written. */
int64_t unpack_texts(const uint8_t *start, int64_t size, int64_t n, int32_t *ends, uint8_t *texts) {
    Bytes bytes = {start, start + size, 0};
    int64_t end = 0;
    ends[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t length;
        if (bytes.end - bytes.at < 4) return -1;
        memcpy(&length, bytes.at, 4);
        bytes.at += 4;
        const uint8_t *text = bytes.at;
        advance(&bytes, length);
        if (bytes.failed || end + length > INT32_MAX) return -1;
        memcpy(texts + end, text, length);
        end += length;
        ends[i + 1] = (int32_t)end;
    }
    return end;
}
