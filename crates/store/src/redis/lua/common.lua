-- What every script over a home's records shares. Times are whole microseconds, money is in nano-dollars, and all stay
-- below 2^53, where a Lua number is exact.
--
-- A record is bytes: the version of this layout, how many limits, name and shape of each; then until when it must be kept
-- and the money of a day (its day, what is posted, what is held, how many holds); then the numbers of every limit, the
-- holds, the newest first, and every sliding limit's older slices, the oldest first. What a limit has for numbers:
--   rate (shape 4u+1, u the time of a unit):   the moment by which all is used up
--   sliding (shape 4s, s the time of a slice): the newest slice, its units, the sum, how many older slices
--   calendar (shape 2 a day, 6 a month):       the period, its units
-- A hold is 20 bytes: its number, its worst, until when it lasts. An older slice is 11: which, and its units.
-- Unpacked it is one flat table: 1 nothing, 2 until when, 3 to 6 money with the holds as bytes, then six places per limit:
-- name, shape and up to four numbers, the fourth being the older slices as bytes.
local floor, max, min = math.floor, math.max, math.min
local pack, unpack_one, sub = struct.pack, struct.unpack, string.sub
local DAY = 86400000000
local MOST = 4294967295
local mono, utc = ask[1], ask[2]
if mono < 0 then
  local time = redis.call('TIME')
  mono = time[1] * 1000000 + time[2]
  utc = mono
end

local HEAD, NUMBERS = '>I7I4I7I7I2', { [0] = 'I7I4I7I2', 'I7', 'I4I4' }

-- Milliseconds to keep something. Where time is stepped the server's own must not be quicker.
local function ttl(span)
  return string.format('%d', max(math.ceil(span / 1000), 1) + (ask[1] < 0 and 0 or 3600000))
end

local function load(key)
  local raw = redis.call('GET', key)
  if not raw then return { 1, 0, 0, 0, 0, '' } end
  local version, limits = string.byte(raw, 1, 2)
  if version ~= 1 then error('another layout') end
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
  local at, place = 7, 6
  for named = 1, 2 * limits, 2 do
    local kind = names[named + 1] % 4
    record[at], record[at + 1], record[at + 2] = names[named], names[named + 1], numbers[place]
    record[at + 3], record[at + 4], record[at + 5] = kind ~= 1 and numbers[place + 1] or 0, 0, ''
    if kind == 0 then
      record[at + 4], record[at + 5] = numbers[place + 2], bytes(numbers[place + 3] * 11)
    end
    at, place = at + 6, place + (kind == 0 and 4 or kind == 1 and 1 or 2)
  end
  if from ~= #raw + 1 then error('another layout') end
  return record
end

-- Where a limit lies in a record; behind its end if it does not. Those of one request mostly lie in its order.
local function find(record, id, guess)
  if record[guess] == id then return guess end
  local last = #record
  for at = 7, last, 6 do
    if record[at] == id then return at end
  end
  return last + 1
end

-- The number of a period of the calendar that holds a moment, or when a period begins. What only months need is made only
-- for them: every function that a script defines costs each of its runs.
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

-- The newest slice, its units, the sum and the older slices as they are at present, and where in its slice that is.
local function slices(record, at, slice)
  local present = floor(mono / slice)
  local into = mono - present * slice
  local newest, units, sum, older = record[at + 2], record[at + 3], record[at + 4], record[at + 5]
  if sum <= 0 then return present, 0, 0, '', into end
  if newest > present then
    -- Time went back. Taken for a later slice it would renew the limit.
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

-- Puts a limit that has another shape now into its new one: what was used counts as used just now.
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
  used = min(used, MOST)
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

-- A new limit in a record.
local function begin(record, at, id, shape)
  record[at], record[at + 1], record[at + 2], record[at + 3], record[at + 4], record[at + 5] = id, shape, 0, 0, 0, ''
end

-- Takes units whether they fit or not. Returns where they were taken from; keeps the record for as long as they count.
local function take(record, at, shape, units)
  local mark, keep
  local kind = shape % 4
  if kind == 0 then
    local slice = shape / 4
    local present, now_units, sum, older = slices(record, at, slice)
    mark, keep = present, mono + slice * 62
    if units > 0 then
      units = min(units, MOST - now_units)
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
    record[at + 3] = min(record[at + 3] + units, MOST)
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
    local kind, place = record[at + 1] % 4, #numbers
    names[#names + 1], names[#names + 2] = record[at], record[at + 1]
    format = format .. NUMBERS[kind]
    numbers[place + 1] = record[at + 2]
    if kind ~= 1 then numbers[place + 2] = record[at + 3] end
    if kind == 0 then
      numbers[place + 3], numbers[place + 4] = record[at + 4], #record[at + 5] / 11
      rest = rest .. record[at + 5]
    end
  end
  local head = pack('>BB' .. string.rep('I6I7', limits), 1, limits, unpack(names))
  redis.call('SET', key, head .. pack(format, unpack(numbers)) .. rest, 'PX', ttl(record[2] - mono))
end
