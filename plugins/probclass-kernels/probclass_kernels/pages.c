/* A column of texts of a Parquet file: the indices of their dictionary, page by page.

   The bytes may be anything: nothing is read beyond their end. For a page that is not understood the
   caller has another program read the file. */

#include <stdint.h>
#include <string.h>

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

/* Decompress Snappy's format. Returns 0, or −1 unless there are `size` bytes. */
static int decompress_snappy(const uint8_t *start, int64_t n, uint8_t *out, int64_t size) {
    Bytes bytes = {start, start + n, 0};
    uint8_t *to = out, *end = out + size;
    if (varint(&bytes) != (uint64_t)size) return -1;
    while (bytes.at < bytes.end) {
        uint8_t tag = next_byte(&bytes);
        int extra = tag & 3 ? (tag & 3) == 3 ? 4 : tag & 3 : (tag >> 2) < 60 ? 0 : (tag >> 2) - 59;
        uint64_t number = 0, length = (uint64_t)(tag >> 2) + 1;
        for (int i = 0; i < extra; i++) number |= (uint64_t)next_byte(&bytes) << (8 * i);
        if (bytes.failed) return -1;
        if (!(tag & 3)) {
            if (extra) length = number + 1;
            if (length > (uint64_t)(bytes.end - bytes.at) || length > (uint64_t)(end - to)) return -1;
            memcpy(to, bytes.at, length);
            bytes.at += length;
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
    return to == end ? 0 : -1;
}

/* Eight numbers of `width` bits from `width` bytes, of which up to `left` exist. */
static void unpack_eight(const uint8_t *at, int64_t left, int width, uint32_t *numbers) {
    uint8_t copy[48] = {0};
    if (left < width + 8) {
        memcpy(copy, at, left < width ? (size_t)left : (size_t)width);
        at = copy;
    }
    uint32_t mask = width == 32 ? UINT32_MAX : ((uint32_t)1 << width) - 1;
    uint64_t word;
    if (width <= 8) {
        memcpy(&word, at, sizeof word);
        for (int i = 0; i < 8; i++) numbers[i] = (uint32_t)(word >> (i * width)) & mask;
        return;
    }
    for (int i = 0; i < 8; i++) {
        int bit = i * width;
        memcpy(&word, at + bit / 8, sizeof word);
        numbers[i] = (uint32_t)(word >> (bit % 8)) & mask;
    }
}

/* Numbers of `width` bits in runs: of one number that is repeated, or packed without gaps. They are
   little-endian, as the processor has to be. Returns 0, or −1.

   numbers: (n,), written.
   limit: the numbers have to be below it. */
static int unpack(const uint8_t *start, int64_t size, int32_t width, int64_t n, int64_t limit,
           uint32_t *numbers) {
    Bytes bytes = {start, start + size, 0};
    if (width < 0 || width > 32) return -1;
    for (int64_t done = 0; done < n;) {
        uint64_t head = varint(&bytes), run = head >> 1;
        if (bytes.failed || !run || run > (uint64_t)1 << 40) return -1;
        if (head & 1) {
            const uint8_t *at = bytes.at;
            int64_t rest = n - done, left = bytes.end - at;
            advance(&bytes, run * (uint64_t)width);
            if (bytes.failed) return -1;
            for (uint64_t i = 0; i < run && rest > 0; i++, rest -= 8, at += width, left -= width) {
                uint32_t eight[8];
                int some = rest < 8 ? (int)rest : 8;
                unpack_eight(at, left, width, some < 8 ? eight : numbers + done);
                if (some < 8) memcpy(numbers + done, eight, (size_t)some * sizeof *eight);
                done += some;
            }
        } else {
            uint32_t number = 0;
            for (int i = 0; i < (width + 7) / 8; i++)
                number |= (uint32_t)next_byte(&bytes) << (8 * i);
            if (bytes.failed) return -1;
            int64_t count = n - done < (int64_t)run ? n - done : (int64_t)run;
            for (int64_t j = 0; j < count; j++) numbers[done++] = number;
        }
    }
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) largest = numbers[i] > largest ? numbers[i] : largest;
    return n && largest >= limit ? -1 : 0;
}

/* The definition levels of a column that may be null, 1 for a value: as bits, the first one the lowest.
   Returns the number of values, or −1.

   bits: (n / 8, rounded up), written. */
static int64_t unpack_valid(const uint8_t *start, int64_t size, int64_t n, uint8_t *bits) {
    Bytes bytes = {start, start + size, 0};
    int64_t valid = 0;
    memset(bits, 0, (size_t)(n + 7) / 8);
    for (int64_t done = 0; done < n;) {
        uint64_t head = varint(&bytes), run = head >> 1;
        if (bytes.failed || !run || run > (uint64_t)1 << 40) return -1;
        int64_t most = head & 1 ? (int64_t)run * 8 : (int64_t)run;
        int64_t count = n - done < most ? n - done : most;
        const uint8_t *at = bytes.at;
        uint8_t level = head & 1 ? 0 : next_byte(&bytes);
        if (head & 1) advance(&bytes, run);
        if (bytes.failed || level > 1) return -1;
        for (int64_t i = 0; i < count;) {
            int64_t place = done + i;
            int is_whole = place % 8 == 0 && i % 8 == 0 && count - i >= 8;
            if (is_whole) {
                uint8_t eight = head & 1 ? at[i / 8] : level ? 0xff : 0;
                bits[place / 8] = eight;
                valid += __builtin_popcount(eight);
                i += 8;
            } else {
                uint8_t bit = head & 1 ? at[i / 8] >> (i % 8) & 1 : level;
                bits[place / 8] |= (uint8_t)(bit << (place % 8));
                valid += bit;
                i++;
            }
        }
        done += count;
    }
    return valid;
}

/* Copy bits from one place to another; NULL for bits that are all set. */
static void copy_bits(const uint8_t *from, int64_t first, int64_t n, uint8_t *to, int64_t at) {
    for (int64_t i = 0; i < n;) {
        int shift = (int)((first + i) % 8);
        const uint8_t *byte = from ? from + (first + i) / 8 : NULL;
        if ((at + i) % 8 == 0 && n - i >= 8) {
            to[(at + i) / 8] =
                !byte ? 0xff : (uint8_t)(byte[0] >> shift | (shift ? byte[1] << (8 - shift) : 0));
            i += 8;
        } else {
            int bit = byte ? byte[0] >> shift & 1 : 1, place = (int)((at + i) % 8);
            uint8_t others = (uint8_t)(to[(at + i) / 8] & ~(1 << place));
            to[(at + i) / 8] = (uint8_t)(others | bit << place);
            i++;
        }
    }
}

/* Where the decoding of a column of a row group is. The caller owns all memory, and gives more of it,
   or more bytes, where read_indices asks for them.

   stored: (size,), bytes of the file, of which those before `at` are done.
   left: number of values on the pages that follow.
   nullable: whether there are definition levels.
   compression: of the pages.
   page: (room,), for a page after decompression. The caller, if it has to decompress, sets
       page_size, which is −1 otherwise.
   entries: size of the dictionary, −1 before its page.
   dense, indices, bits: for a page of at most `most` values: its indices without nulls, and with 0
       for null; and which of them are not null.
   current: indices of the page, of which there are `rows`, and `done` of them are taken; has_nulls:
       whether some of them are null.
   saw_nulls: set if values that were taken may be null.
   wanted, body, body_size: see below. */
typedef struct {
    const uint8_t *stored;
    int64_t size, at, left;
    int64_t nullable, compression;
    uint8_t *page;
    int64_t room, page_size;
    int64_t entries;
    uint32_t *dense, *indices;
    uint8_t *bits;
    int64_t most;
    const uint32_t *current;
    int64_t rows, done, has_nulls, saw_nulls;
    int64_t wanted;
    const uint8_t *body;
    int64_t body_size;
} Cursor;

enum { UNCOMPRESSED, SNAPPY, OTHER_COMPRESSION };
enum { PLAIN = 0, PLAIN_DICTIONARY = 2, RLE = 3, RLE_DICTIONARY = 8 };

/* What is left to the caller:
   TAKEN: nothing, all values were taken.
   BYTES: to give `wanted` bytes from `at` on, or some more if that is 0.
   ROOM, VALUES: to give memory for a page of `wanted` bytes, or values.
   DECOMPRESS: to decompress the `body` into `wanted` bytes of the page.
   ENTRIES: to take `wanted` entries of the dictionary from the `body`, and set `entries`.
   NOT_UNDERSTOOD: to have another program read what follows. */
enum { TAKEN, BYTES, ROOM, VALUES, DECOMPRESS, ENTRIES, NOT_UNDERSTOOD };

static int wants(Cursor *cursor, int status, int64_t wanted) {
    cursor->wanted = wanted;
    return status;
}

/* Decode a page of data. */
static int read_page(Cursor *cursor, const Header *header, const uint8_t *body) {
    int64_t rows = header->values, valid = rows, size = header->size;
    if (rows < 1 || rows > cursor->left || cursor->entries < 0) return NOT_UNDERSTOOD;
    if (rows > cursor->most) return wants(cursor, VALUES, rows);
    if (header->encoding != RLE_DICTIONARY && header->encoding != PLAIN_DICTIONARY)
        return NOT_UNDERSTOOD;
    if (cursor->nullable) {
        uint32_t length;
        if (size < 4 || header->level_encoding != RLE) return NOT_UNDERSTOOD;
        memcpy(&length, body, 4);
        if (length > size - 4) return NOT_UNDERSTOOD;
        valid = unpack_valid(body + 4, length, rows, cursor->bits);
        if (valid < 0) return NOT_UNDERSTOOD;
        body += 4 + (int64_t)length;
        size -= 4 + (int64_t)length;
    }
    if (valid && (size < 1 || unpack(body + 1, size - 1, body[0], valid, cursor->entries,
                                     cursor->dense)))
        return NOT_UNDERSTOOD;
    cursor->has_nulls = valid < rows;
    cursor->current = cursor->dense;
    if (cursor->has_nulls) {
        int64_t next = 0;
        for (int64_t i = 0; i < rows; i++) {
            int bit = cursor->bits[i / 8] >> (i % 8) & 1;
            cursor->indices[i] = bit ? cursor->dense[next] : 0;
            next += bit;
        }
        cursor->current = cursor->indices;
    }
    cursor->rows = rows;
    cursor->done = 0;
    cursor->left -= rows;
    return TAKEN;
}

/* Decompress and decode the next page. */
static int next_page(Cursor *cursor) {
    Header header;
    const uint8_t *start = cursor->stored + cursor->at;
    int64_t size = cursor->size - cursor->at;
    if (!cursor->left) return NOT_UNDERSTOOD;
    if (read_header(start, size, &header)) return wants(cursor, BYTES, 0);
    /* Arrow verifies checksums. */
    if (header.size < 0 || header.size > INT32_MAX || header.stored_size < 0 ||
        header.stored_size > INT32_MAX || header.is_checked)
        return NOT_UNDERSTOOD;
    int64_t length = header.length + header.stored_size;
    if (size < length) return wants(cursor, BYTES, length);
    cursor->body = start + header.length;
    cursor->body_size = header.stored_size;
    if (cursor->compression == UNCOMPRESSED) {
        if (header.size != header.stored_size) return NOT_UNDERSTOOD;
    } else {
        if (header.size > cursor->room) return wants(cursor, ROOM, header.size);
        if (cursor->compression == SNAPPY) {
            if (decompress_snappy(cursor->body, cursor->body_size, cursor->page, header.size))
                return NOT_UNDERSTOOD;
        } else if (cursor->page_size != header.size) {
            return wants(cursor, DECOMPRESS, header.size);
        }
        cursor->body = cursor->page;
        cursor->body_size = header.size;
    }
    if (header.type == DATA_PAGE) {
        int status = read_page(cursor, &header, cursor->body);
        if (status != TAKEN) return status;
    } else if (header.type != DICTIONARY_PAGE || cursor->entries >= 0 || header.values < 0 ||
               (header.encoding != PLAIN && header.encoding != PLAIN_DICTIONARY)) {
        return NOT_UNDERSTOOD;
    }
    cursor->at += length;
    cursor->page_size = -1;
    return header.type == DATA_PAGE ? TAKEN : wants(cursor, ENTRIES, header.values);
}

/* Take the indices of the next values. Returns what is left to the caller, who then calls again.

   indices: (n,), of which those before `*taken` are there; 0 for null.
   bits: (n / 8, rounded up), set for values that are not null, if saw_nulls; else not written. */
int read_indices(Cursor *cursor, int64_t n, int64_t *taken, uint32_t *indices, uint8_t *bits) {
    while (*taken < n) {
        if (cursor->done == cursor->rows) {
            int status = next_page(cursor);
            if (status != TAKEN) return status;
        }
        int64_t rest = cursor->rows - cursor->done, some = rest < n - *taken ? rest : n - *taken;
        memcpy(indices + *taken, cursor->current + cursor->done, (size_t)some * sizeof *indices);
        if (cursor->has_nulls && !cursor->saw_nulls) {
            memset(bits, 0xff, (size_t)(*taken + 7) / 8);
            cursor->saw_nulls = 1;
        }
        if (cursor->saw_nulls)
            copy_bits(cursor->has_nulls ? cursor->bits : NULL, cursor->done, some, bits, *taken);
        cursor->done += some;
        *taken += some;
    }
    return TAKEN;
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
