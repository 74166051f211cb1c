-- Decides over a request: its idempotency key, every limit, and its caller's daily budget. Writes nothing on a refusal.
-- args: 1, 2 the time or -1; 3 requests, 4 tokens; 5 the record with the budget or 0, 6 maximum cost, 7 cap, 8 timeout
-- of the hold; 9 a random number; 10 the request's fingerprint, 11 timeout of the claim (there is a claim if there is a key
-- for it); 12 number of records; then for every limit: its record, id, shape, capacity, and 3 or 4 for the unit it counts.
local limits = (#ARGV[1] - 67) / 19
local last = 12 + 5 * limits
local args = { struct.unpack('>i8I7I4I4BI7I7I7I6c8I7B' .. string.rep('BI6I7I4B', limits), ARGV[1]) }
--COMMON
-- Moves the requested limits to the front and drops limits that have not counted for a minute, so that the specialised
-- script recognises the record.
local function compact(record, positions)
  local compacted = { unpack(record, 1, 6) }
  for _, at in ipairs(positions) do
    for pos = at, at + 5 do compacted[#compacted + 1] = record[pos] end
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
      for pos = at, at + 5 do compacted[#compacted + 1] = record[pos] end
    end
  end
  return compacted
end

local function decide()
  local count = args[12]
  if #KEYS > count then
    local claim = redis.call('GET', KEYS[count + 1])
    if claim then
      if #claim ~= 22 then error('invalid claim') end
      local _, expires = unpack_one('>I6I7', claim, 10)
      if expires > mono then
        if sub(claim, 2, 9) ~= args[10] then return { 6 } end
        return { sub(claim, 1, 1) == 'd' and 5 or 4 }
      end
    end
  end
  local records, guesses = {}, {}
  for index = 1, count do
    records[index] = load(KEYS[index])
    guesses[index] = 7
  end
  local positions, too_large, longest, binding, binding_left, tightest, least = {}, nil, -1, 0, 0, 0, MAX_UNITS + 1
  local limit, marks = 0, {}
  for from = 13, last, 5 do
    limit = limit + 1
    local record, shape, capacity, units = records[args[from]], args[from + 2], args[from + 3], args[args[from + 4]]
    local at = find(record, args[from + 1], guesses[args[from]])
    guesses[args[from]] = at + 6
    positions[limit] = at
    if not record[at] then
      begin(record, at, args[from + 1], shape)
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
        -- Brought up to date; written only if the request is granted.
        record[at + 2], record[at + 3], record[at + 4], record[at + 5] = present, now_units, sum, older
      end
      left = max(capacity - sum, 0)
      if units > left and units <= capacity then
        local still, number = sum, present
        for pos = 1, #older, 11 do
          local used
          number, used = unpack_one('>I7I4', older, pos)
          still = still - used
          if units <= max(capacity - still, 0) then break end
          number = present
        end
        wait = (61 - present + number) * slice - into
      end
    elseif kind == 1 then
      local unit = (shape - 1) / 4
      local before = max(record[at + 2] - mono, 0)
      left = floor(max(unit * capacity - before, 0) / unit)
      local after = before + unit * units
      if units > 0 and after > unit * capacity then wait = after - unit * capacity end
    else
      local period = max(period_of(shape, utc), record[at + 2])
      left = max(capacity - (period == record[at + 2] and record[at + 3] or 0), 0)
      if units > left then wait = max(begins(shape, period + 1) - utc, 0) end
    end
    if units > capacity then
      too_large = too_large or limit
    elseif wait then
      if wait > longest then longest, binding, binding_left = wait, limit, left end
    else
      left = max(left - units, 0)
      if left < least then tightest, least = limit, left end
    end
  end
  if too_large then return { 2, too_large } end
  if longest >= 0 then return { 1, binding, binding_left, longest } end
  local day = 0
  if args[5] > 0 then
    local record = records[args[5]]
    day = max(floor(utc / DAY), record[3])
    if day > record[3] then record[3], record[4], record[5], record[6] = day, 0, 0, '' end
    local free = max(args[7] - record[4] - record[5], 0)
    if args[6] > free then
      -- A hold in flight may be released; an expired one stays charged.
      local unspent, held = args[7] - record[4], record[6]
      for pos = 1, #held, 20 do
        local _, max_cost, expires = unpack_one('>I6I7I7', held, pos)
        if expires <= mono then unspent = unspent - max_cost end
      end
      return { 3, free, max(unspent, free), (day + 1) * DAY }
    end
    local holds = record[6]
    while #holds >= 640 do
      -- An expired hold stays charged at its maximum cost. Only the oldest of many can no longer be corrected.
      local _, max_cost, expires = unpack_one('>I6I7I7', holds, #holds - 19)
      if expires > mono then break end
      record[4], record[5] = record[4] + max_cost, record[5] - max_cost
      holds = sub(holds, 1, -21)
    end
    record[5] = record[5] + args[6]
    record[6] = pack('>I6I7I7', args[9], args[6], mono + args[8]) .. holds
    record[2] = max(record[2], mono + (day + 1) * DAY - utc + 3600000000)
  end
  local answer = { 0, tightest, least, day }
  limit = 0
  for from = 13, last, 5 do
    limit = limit + 1
    local record, at, shape, units = records[args[from]], positions[limit], args[from + 2], args[args[from + 4]]
    if shape % 4 == 0 then
      if units > 0 then
        units = min(units, MAX_UNITS - record[at + 3])
        record[at + 3], record[at + 4] = record[at + 3] + units, record[at + 4] + units
        local keep = mono + shape / 4 * 62
        if keep > record[2] then record[2] = keep end
      end
      answer[limit + 4] = marks[limit]
    else
      answer[limit + 4] = take(record, at, shape, units)
    end
  end
  if count == 1 then records[1] = compact(records[1], positions) end
  for index = 1, count do save(KEYS[index], records[index]) end
  if #KEYS > count then
    local claim = 'p' .. args[10] .. pack('>I6I7', args[9], mono + args[11])
    redis.call('SET', KEYS[count + 1], claim, 'PX', ttl(args[11]))
  end
  return answer
end
--GUARD
