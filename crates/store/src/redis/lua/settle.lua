-- Corrects the charge of a request to its actual usage.
-- args: 1, 2 the time or -1; 3, 4 reserved requests and tokens; 5 the record with the budget or 0, 6 its day, 7 maximum
-- cost, 8 actual cost; 9 the random number of the reservation; 10 the request's fingerprint, 11 how long its key is retained
-- as done, or 0; 12 number of records; 13, 14 actual requests and tokens; then for every limit: its record, id, shape, 3 or
-- 4 for the unit it counts, the window that was charged.
local limits = (#ARGV[1] - 72) / 22
local last = 14 + 5 * limits
local args = { struct.unpack('>i8I7I4I4BI4I7I7I6c8I7BI4I4' .. string.rep('BI6I7BI7', limits), ARGV[1]) }
--COMMON
local function give_back(record, at, mark, units)
  if record[at + 4] <= 0 then return false end
  if record[at + 2] == mark then
    local less = min(units, record[at + 3])
    record[at + 3], record[at + 4] = record[at + 3] - less, record[at + 4] - less
    return less > 0
  end
  local older = record[at + 5]
  for pos = #older - 10, 1, -11 do
    local number, used = unpack_one('>I7I4', older, pos)
    if number == mark then
      local less = min(units, used)
      local rest = used > less and pack('>I7I4', number, used - less) or ''
      record[at + 4], record[at + 5] = record[at + 4] - less, sub(older, 1, pos - 1) .. rest .. sub(older, pos + 11)
      return true
    end
    if number < mark then return false end
  end
  return false
end

local function decide()
  local count = args[12]
  local records, changed, guesses = {}, {}, {}
  local function open(index)
    if not records[index] then records[index], guesses[index] = load(KEYS[index]), 7 end
    return records[index]
  end
  for from = 15, last, 5 do
    local reserved, actual = args[args[from + 3]], args[args[from + 3] + 10]
    if reserved ~= actual then
      local index, shape, mark = args[from], args[from + 2], args[from + 4]
      local record = open(index)
      local at = find(record, args[from + 1], guesses[index])
      guesses[index] = at + 6
      local debt, refund = max(actual - reserved, 0), max(reserved - actual, 0)
      local known = record[at] ~= nil
      if not known and debt > 0 then begin(record, at, args[from + 1], shape) end
      if known and record[at + 1] ~= shape then
        -- The limit has changed meanwhile, so the charged window no longer exists. Only the excess is charged.
        if debt > 0 then take(record, at, record[at + 1], debt); changed[index] = true end
      elseif known or debt > 0 then
        local kind = shape % 4
        if kind == 0 then
          if refund > 0 and give_back(record, at, mark, refund) then changed[index] = true end
          if debt > 0 then take(record, at, shape, debt); changed[index] = true end
        elseif kind == 1 then
          local owed = min((shape - 1) / 4 * refund, max(mark - mono, 0))
          if owed > 0 then record[at + 2] = max(record[at + 2] - owed, 0); changed[index] = true end
          if debt > 0 then take(record, at, shape, debt); changed[index] = true end
        else
          if debt > 0 and mark > record[at + 2] then record[at + 2], record[at + 3] = mark, 0 end
          if mark == record[at + 2] then
            record[at + 3] = min(max(record[at + 3] - refund, 0) + debt, MAX_UNITS)
            record[2] = max(record[2], mono + max(begins(shape, mark + 1) - utc, 0) + 1000000)
            changed[index] = true
          end
        end
      end
    end
  end
  if args[5] > 0 then
    local record = open(args[5])
    if record[3] < args[6] then
      record[3], record[4], record[5], record[6] = args[6], args[8], 0, ''
      record[2] = max(record[2], mono + max((args[6] + 1) * DAY - utc, 0) + 3600000000)
      changed[args[5]] = true
    elseif record[3] == args[6] then
      local holds = record[6]
      for pos = 1, #holds, 20 do
        local number, max_cost = unpack_one('>I6I7I7', holds, pos)
        if number == args[9] then
          record[4], record[5] = record[4] + args[8], record[5] - max_cost
          record[6] = sub(holds, 1, pos - 1) .. sub(holds, pos + 20)
          changed[args[5]] = true
          break
        end
      end
    end
  end
  for index in pairs(changed) do save(KEYS[index], records[index]) end
  if #KEYS > count then
    local key = KEYS[count + 1]
    local claim = redis.call('GET', key)
    if claim and #claim == 22 and sub(claim, 1, 1) == 'p' and sub(claim, 2, 9) == args[10] then
      local number, expires = unpack_one('>I6I7', claim, 10)
      if number == args[9] and expires > mono then
        if args[11] > 0 then
          redis.call('SET', key, 'd' .. args[10] .. pack('>I6I7', number, mono + args[11]), 'PX', ttl(args[11]))
        else
          redis.call('DEL', key)
        end
      end
    end
  end
  return { 0 }
end
--GUARD
