-- Decides over a request: its name, every limit, its caller's money of the day. Writes nothing unless it is granted.
-- ask: 1, 2 the time or -1; 3 requests, 4 tokens; 5 which record has the money or 0, 6 worst, 7 cap, 8 lasts; 9 a
-- random number; 10 the request's fingerprint, 11 the claim lasts (there is one if there is a key
-- for it); 12 how many records; then for every limit: its record, name, shape, most units, and 3 or 4 for what it counts.
local limits = (#ARGV[1] - 67) / 19
local last = 12 + 5 * limits
local ask = { struct.unpack('>i8I7I4I4BI7I7I7I6c8I7B' .. string.rep('BI6I7I4B', limits), ARGV[1]) }
--COMMON
-- Puts what was asked for first, and drops what has not counted for a minute: then a straight decision knows the record.
local function tidy(record, places)
  local tidied = { unpack(record, 1, 6) }
  for _, at in ipairs(places) do
    for place = at, at + 5 do tidied[#tidied + 1] = record[place] end
    record[at] = false
  end
  for at = 7, #record, 6 do
    local shape, ends = record[at + 1], record[at + 2]
    if shape % 4 == 0 then
      ends = (ends + 61) * shape / 4
    elseif shape % 4 == 2 then
      ends = begins(shape, ends + 1) - utc + mono
    end
    if record[at] and ends + 60000000 > mono then
      for place = at, at + 5 do tidied[#tidied + 1] = record[place] end
    end
  end
  return tidied
end

local function decide()
  local count = ask[12]
  if #KEYS > count then
    local claim = redis.call('GET', KEYS[count + 1])
    if claim then
      if #claim ~= 22 then error('another claim') end
      local _, expires = unpack_one('>I6I7', claim, 10)
      if expires > mono then
        if sub(claim, 2, 9) ~= ask[10] then return { 6 } end
        return { sub(claim, 1, 1) == 'd' and 5 or 4 }
      end
    end
  end
  local records, guesses = {}, {}
  for index = 1, count do
    records[index] = load(KEYS[index])
    guesses[index] = 7
  end
  local places, never, never_cap, longest, bound, bound_left, tight, least = {}, nil, 0, -1, 0, 0, 0, MOST + 1
  local limit, marks = 0, {}
  for from = 13, last, 5 do
    limit = limit + 1
    local record, shape, most, units = records[ask[from]], ask[from + 2], ask[from + 3], ask[ask[from + 4]]
    local at = find(record, ask[from + 1], guesses[ask[from]])
    guesses[ask[from]] = at + 6
    places[limit] = at
    if not record[at] then
      begin(record, at, ask[from + 1], shape)
    elseif record[at + 1] ~= shape then
      reshape(record, at, shape)
    end
    local left, wait
    local kind = shape % 4
    if kind == 0 then
      local slice = shape / 4
      local present, now_units, sum, older, into = slices(record, at, slice)
      marks[limit] = present
      if units > 0 then
        -- As it is at present; it is written only if all is granted.
        record[at + 2], record[at + 3], record[at + 4], record[at + 5] = present, now_units, sum, older
      end
      left = max(most - sum, 0)
      if units > left and units <= most then
        local still, number = sum, present
        for place = 1, #older, 11 do
          local used
          number, used = unpack_one('>I7I4', older, place)
          still = still - used
          if units <= max(most - still, 0) then break end
          number = present
        end
        wait = (61 - present + number) * slice - into
      end
    elseif kind == 1 then
      local unit = (shape - 1) / 4
      local before = max(record[at + 2] - mono, 0)
      left = floor(max(unit * most - before, 0) / unit)
      local after = before + unit * units
      if units > 0 and after > unit * most then wait = after - unit * most end
    else
      local period = max(period_of(shape, utc), record[at + 2])
      left = max(most - (period == record[at + 2] and record[at + 3] or 0), 0)
      if units > left then wait = max(begins(shape, period + 1) - utc, 0) end
    end
    if units > most then
      if not never then never, never_cap = limit, most end
    elseif wait then
      if wait > longest then longest, bound, bound_left = wait, limit, left end
    else
      left = max(left - units, 0)
      if left < least then tight, least = limit, left end
    end
  end
  if never then return { 2, never } end
  if longest >= 0 then return { 1, bound, bound_left, longest } end
  local day = 0
  if ask[5] > 0 then
    local record = records[ask[5]]
    day = max(floor(utc / DAY), record[3])
    if day > record[3] then record[3], record[4], record[5], record[6] = day, 0, 0, '' end
    local free = max(ask[7] - record[4] - record[5], 0)
    if ask[6] > free then
      -- What a call under way holds may come back; what has lasted is charged.
      local unspent, held = ask[7] - record[4], record[6]
      for place = 1, #held, 20 do
        local _, worst, expires = unpack_one('>I6I7I7', held, place)
        if expires <= mono then unspent = unspent - worst end
      end
      return { 3, free, max(unspent, free), (day + 1) * DAY }
    end
    local holds = record[6]
    while #holds >= 640 do
      -- What has lasted stays charged at its worst; only the first of many cannot be corrected any more.
      local _, worst, expires = unpack_one('>I6I7I7', holds, #holds - 19)
      if expires > mono then break end
      record[4], record[5] = record[4] + worst, record[5] - worst
      holds = sub(holds, 1, -21)
    end
    record[5] = record[5] + ask[6]
    record[6] = pack('>I6I7I7', ask[9], ask[6], mono + ask[8]) .. holds
    record[2] = max(record[2], mono + (day + 1) * DAY - utc + 3600000000)
  end
  local answer = { 0, tight, least, day }
  limit = 0
  for from = 13, last, 5 do
    limit = limit + 1
    local record, at, shape, units = records[ask[from]], places[limit], ask[from + 2], ask[ask[from + 4]]
    if shape % 4 == 0 then
      if units > 0 then
        units = min(units, MOST - record[at + 3])
        record[at + 3], record[at + 4] = record[at + 3] + units, record[at + 4] + units
        local keep = mono + shape / 4 * 62
        if keep > record[2] then record[2] = keep end
      end
      answer[limit + 4] = marks[limit]
    else
      answer[limit + 4] = take(record, at, shape, units)
    end
  end
  if count == 1 then records[1] = tidy(records[1], places) end
  for index = 1, count do save(KEYS[index], records[index]) end
  if #KEYS > count then
    local claim = 'p' .. ask[10] .. pack('>I6I7', ask[9], mono + ask[11])
    redis.call('SET', KEYS[count + 1], claim, 'PX', ttl(ask[11]))
  end
  return answer
end
--GUARD
