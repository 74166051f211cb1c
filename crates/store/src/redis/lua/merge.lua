-- Books what a node has admitted without us, once however often it is told.
-- ask: 1, 2 the time or -1; 3 which life of the node, 4 the number of this report; 5 how many records; then for every
-- entry: its record, name (0 for money), shape, units (nano-dollars for money), how long ago. The last key remembers.
local ask = cmsgpack.unpack(ARGV[1])
--COMMON
local function decide()
  local memory = KEYS[ask[5] + 1]
  local told = redis.call('GET', memory)
  if told then
    local life, number = unpack_one('>I6I6', told)
    if life == ask[3] and number >= ask[4] then return { 1 } end
  end
  local records = {}
  for index = 1, ask[5] do records[index] = load(KEYS[index]) end
  local now_mono, now_utc = mono, utc
  for from = 6, #ask, 5 do
    local record, id, shape, units, ago = records[ask[from]], ask[from + 1], ask[from + 2], ask[from + 3], ask[from + 4]
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
          now_units, sum = min(now_units + units, MOST), sum + units
        elseif number > present - 61 then
          local place, used = 1, 0
          while place <= #older do
            local there, its = unpack_one('>I7I4', older, place)
            if there == number then used = its end
            if there >= number then break end
            place = place + 11
          end
          local rest = sub(older, used > 0 and place + 11 or place)
          older = sub(older, 1, place - 1) .. pack('>I7I4', number, min(used + units, MOST)) .. rest
          sum = sum + min(units, MOST - used)
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
  for index = 1, ask[5] do save(KEYS[index], records[index]) end
  redis.call('SET', memory, pack('>I6I6', ask[3], ask[4]), 'PX', 86400000)
  return { 0 }
end
--GUARD
