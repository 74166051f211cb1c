-- Shared by all scripts over the usage records of a partition. Times are whole microseconds and money is in nano-dollars.
-- All values stay below 2^53, where a Lua number is exact.
--
-- Binary layout of a record: layout version, number of limits, id and shape of each limit; then the expiry and the daily
-- budget (day, posted, held, number of holds); then the numbers of every limit, the holds (newest first), and the older
-- slices of every sliding limit (oldest first). The numbers of a limit:
--   rate (shape 4u+1, u is the time per unit):       the GCRA theoretical arrival time
--   sliding (shape 4s, s is the length of a slice):  the newest slice, its units, the sum, the number of older slices
--   calendar (shape 2 for a day, 6 for a month):     the period, its units
-- A hold has 20 bytes: its number, maximum cost and expiry. An older slice has 11 bytes: its number and its units.
-- Unpacked, a record is one flat table: 1 unused, 2 expiry, 3 to 6 the daily budget with the holds as bytes, then six
-- fields per limit: id, shape and up to four numbers, of which the fourth is the older slices as bytes.
local floor, max, min = math.floor, math.max, math.min
local pack, unpack_one, sub = struct.pack, struct.unpack, string.sub
local DAY = 86400000000
local MAX_UNITS = 4294967295
local mono, utc = args[1], args[2]
if mono < 0 then
  local time = redis.call('TIME')
  mono = time[1] * 1000000 + time[2]
  utc = mono
end

local HEAD, NUMBERS = '>I7I4I7I7I2', { [0] = 'I7I4I7I2', 'I7', 'I4I4' }

-- Converts a time span to a TTL in milliseconds. With a manual clock, an hour is added so that the server's own clock does
-- not expire the key first.
local function ttl(span)
  return string.format('%d', max(math.ceil(span / 1000), 1) + (args[1] < 0 and 0 or 3600000))
end

local function load(key)
  local raw = redis.call('GET', key)
  if not raw then return { 1, 0, 0, 0, 0, '' } end
  local version, limits = string.byte(raw, 1, 2)
  if version ~= 1 then error('unknown layout') end
  local names = { unpack_one('>' .. string.rep('I6I7', limits), raw, 3) }
  local format = HEAD
  for at = 2, 2 * limits, 2 do format = format .. NUMBERS[names[at] % 4] end
  local numbers = { unpack_one(format, raw, 3 + 13 * limits) }
  local from = numbers[#numbers]
  local function bytes(size)
    local first = from
    from = from + size
    return size > 0 and sub(raw, first, from - 1) or ''
  end
  local record = { 1, numbers[1], numbers[2], numbers[3], numbers[4], bytes(numbers[5] * 20) }
  local at, pos = 7, 6
  for named = 1, 2 * limits, 2 do
    local kind = names[named + 1] % 4
    record[at], record[at + 1], record[at + 2] = names[named], names[named + 1], numbers[pos]
    record[at + 3], record[at + 4], record[at + 5] = kind ~= 1 and numbers[pos + 1] or 0, 0, ''
    if kind == 0 then
      record[at + 4], record[at + 5] = numbers[pos + 2], bytes(numbers[pos + 3] * 11)
    end
    at, pos = at + 6, pos + (kind == 0 and 4 or kind == 1 and 1 or 2)
  end
  if from ~= #raw + 1 then error('unknown layout') end
  return record
end

-- Returns the index of a limit in a record, or the index after the end. The limits of a request are usually in its order, so
-- a guess is tried first.
local function find(record, id, guess)
  if record[guess] == id then return guess end
  local last = #record
  for at = 7, last, 6 do
    if record[at] == id then return at end
  end
  return last + 1
end

-- Returns the number of the month that contains a time, or the start of a month. It is one function, because every function
-- that a script defines adds to the cost of each run.
local function month(moment, period)
  if moment then
    local z = floor(moment / DAY) + 719468
    local era = floor(z / 146097)
    local doe = z - era * 146097
    local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
    local mp = floor((5 * (doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))) + 2) / 153)
    local number = mp < 10 and mp + 3 or mp - 9
    return (yoe + era * 400 + (number <= 2 and 1 or 0)) * 12 + number
  end
  local year, number = floor((period - 1) / 12), (period - 1) % 12 + 1
  if number <= 2 then year = year - 1 end
  local era = floor(year / 400)
  local yoe = year - era * 400
  local doy = floor((153 * ((number + 9) % 12) + 2) / 5)
  return (era * 146097 + yoe * 365 + floor(yoe / 4) - floor(yoe / 100) + doy - 719468) * DAY
end
local function period_of(shape, moment)
  if shape == 2 then return floor(moment / DAY) end
  return month(moment)
end
local function begins(shape, period)
  if shape == 2 then return period * DAY end
  return month(nil, period)
end

-- Returns the newest slice, its units, the sum and the older slices as of now, and the offset of now in its slice.
local function slices(record, at, slice)
  local present = floor(mono / slice)
  local into = mono - present * slice
  local newest, units, sum, older = record[at + 2], record[at + 3], record[at + 4], record[at + 5]
  if sum <= 0 then return present, 0, 0, '', into end
  if newest > present then
    -- The clock went backwards. The newest slice is kept, because otherwise the limit would be renewed.
    present, into = newest, 0
  elseif newest < present then
    if present - newest > 60 then return present, 0, 0, '', into end
    if units > 0 then older = older .. pack('>I7I4', newest, units) end
    units = 0
  end
  local from, length = 1, #older
  while from <= length do
    local number, used = unpack_one('>I7I4', older, from)
    if number > present - 61 then break end
    sum = sum - used
    from = from + 11
  end
  if from > 1 then older = sub(older, from) end
  return present, units, sum, older, into
end

-- Converts a limit whose shape has changed: previous usage counts as used just now.
local function reshape(record, at, shape)
  local old, used = record[at + 1], 0
  if old % 4 == 0 then
    local _, _, sum = slices(record, at, old / 4)
    used = sum
  elseif old % 4 == 1 then
    used = math.ceil(max(record[at + 2] - mono, 0) / ((old - 1) / 4))
  elseif record[at + 2] >= period_of(old, utc) then
    used = record[at + 3]
  end
  used = min(used, MAX_UNITS)
  record[at + 1] = shape
  record[at + 4], record[at + 5] = 0, ''
  if shape % 4 == 0 then
    record[at + 2], record[at + 3], record[at + 4] = floor(mono / (shape / 4)), used, used
  elseif shape % 4 == 1 then
    record[at + 2], record[at + 3] = mono + used * (shape - 1) / 4, 0
  else
    record[at + 2], record[at + 3] = period_of(shape, utc), used
  end
end

-- Adds a new limit to a record.
local function begin(record, at, id, shape)
  record[at], record[at + 1], record[at + 2], record[at + 3], record[at + 4], record[at + 5] = id, shape, 0, 0, 0, ''
end

-- Charges units whether they fit or not, and extends the expiry of the record. Returns the window that was charged.
local function take(record, at, shape, units)
  local mark, keep
  local kind = shape % 4
  if kind == 0 then
    local slice = shape / 4
    local present, now_units, sum, older = slices(record, at, slice)
    mark, keep = present, mono + slice * 62
    if units > 0 then
      units = min(units, MAX_UNITS - now_units)
      record[at + 2], record[at + 3] = present, now_units + units
      record[at + 4], record[at + 5] = sum + units, older
    end
  elseif kind == 1 then
    local taken = (shape - 1) / 4 * units
    record[at + 2] = max(record[at + 2], mono) + taken
    mark, keep = mono + taken, record[at + 2] + 1000000
  else
    local period = period_of(shape, utc)
    if period > record[at + 2] then record[at + 2], record[at + 3] = period, 0 end
    record[at + 3] = min(record[at + 3] + units, MAX_UNITS)
    mark, keep = record[at + 2], mono + (shape == 2 and 2 or 32) * DAY
  end
  if keep > record[2] then record[2] = keep end
  return mark
end

local function save(key, record)
  local limits = (#record - 6) / 6
  local names, format, rest = {}, HEAD, record[6]
  local numbers = { record[2], record[3], record[4], record[5], #rest / 20 }
  for at = 7, #record, 6 do
    local kind, pos = record[at + 1] % 4, #numbers
    names[#names + 1], names[#names + 2] = record[at], record[at + 1]
    format = format .. NUMBERS[kind]
    numbers[pos + 1] = record[at + 2]
    if kind ~= 1 then numbers[pos + 2] = record[at + 3] end
    if kind == 0 then
      numbers[pos + 3], numbers[pos + 4] = record[at + 4], #record[at + 5] / 11
      rest = rest .. record[at + 5]
    end
  end
  local head = pack('>BB' .. string.rep('I6I7', limits), 1, limits, unpack(names))
  redis.call('SET', key, head .. pack(format, unpack(numbers)) .. rest, 'PX', ttl(record[2] - mono))
end
