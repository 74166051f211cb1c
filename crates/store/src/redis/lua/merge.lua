-- Merges what a node has admitted while the server was unreachable. The same report counts once, however often it is sent.
-- args: 1, 2 the time or -1; 3 the incarnation of the node, 4 the number of this report; 5 number of records; then for every
-- entry: its record, id (0 for money), shape, units (nano-dollars for money), age. The last key stores the last report.
local args = cmsgpack.unpack(ARGV[1])
--COMMON
local function decide()
  local report_key = KEYS[args[5] + 1]
  local last_report = redis.call('GET', report_key)
  if last_report then
    local life, number = unpack_one('>I6I6', last_report)
    if life == args[3] and number >= args[4] then return { 1 } end
  end
  local records = {}
  for index = 1, args[5] do records[index] = load(KEYS[index]) end
  local now_mono, now_utc = mono, utc
  for from = 6, #args, 5 do
    local record, id, shape, units, ago = records[args[from]], args[from + 1], args[from + 2], args[from + 3], args[from + 4]
    if id == 0 then
      local day = floor(max(utc - ago, 0) / DAY)
      if day > record[3] then record[3], record[4], record[5], record[6] = day, 0, 0, '' end
      if day == record[3] then
        record[4] = record[4] + units
        record[2] = max(record[2], mono + (day + 1) * DAY - utc + 3600000000)
      end
    else
      local at = find(record, id, 7)
      if not record[at] then
        begin(record, at, id, shape)
      elseif record[at + 1] ~= shape then
        reshape(record, at, shape)
      end
      if shape % 4 == 0 then
        local slice = shape / 4
        local present, now_units, sum, older = slices(record, at, slice)
        local number = floor(max(mono - ago, 0) / slice)
        if number >= present then
          now_units, sum = min(now_units + units, MAX_UNITS), sum + units
        elseif number > present - 61 then
          local pos, used = 1, 0
          while pos <= #older do
            local stored, their_units = unpack_one('>I7I4', older, pos)
            if stored == number then used = their_units end
            if stored >= number then break end
            pos = pos + 11
          end
          local rest = sub(older, used > 0 and pos + 11 or pos)
          older = sub(older, 1, pos - 1) .. pack('>I7I4', number, min(used + units, MAX_UNITS)) .. rest
          sum = sum + min(units, MAX_UNITS - used)
        end
        record[at + 2], record[at + 3], record[at + 4], record[at + 5] = present, now_units, sum, older
        record[2] = max(record[2], mono + slice * 62)
      elseif shape % 4 == 1 then
        take(record, at, shape, units)
      elseif period_of(shape, max(utc - ago, 0)) >= period_of(shape, utc) then
        take(record, at, shape, units)
      end
    end
  end
  for index = 1, args[5] do save(KEYS[index], records[index]) end
  redis.call('SET', report_key, pack('>I6I6', args[3], args[4]), 'PX', 86400000)
  return { 0 }
end
--GUARD
