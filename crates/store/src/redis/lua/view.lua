-- Returns what is left of every limit. Writes nothing. args: as for a reservation.
local limits = (#ARGV[1] - 67) / 19
local last = 12 + 5 * limits
local args = { struct.unpack('>i8I7I4I4BI7I7I7I6c8I7B' .. string.rep('BI6I7I4B', limits), ARGV[1]) }
--COMMON
local function decide()
  local answer, records = { 0 }, {}
  for index = 1, args[12] do records[index] = load(KEYS[index]) end
  for from = 13, last, 5 do
    local record, shape, capacity = records[args[from]], args[from + 2], args[from + 3]
    local at = find(record, args[from + 1], 7)
    if not record[at] then
      begin(record, at, args[from + 1], shape)
    elseif record[at + 1] ~= shape then
      reshape(record, at, shape)
    end
    local kind, left = shape % 4, 0
    if kind == 0 then
      local _, _, sum = slices(record, at, shape / 4)
      left = capacity - sum
    elseif kind == 1 then
      local unit = (shape - 1) / 4
      left = floor((unit * capacity - max(record[at + 2] - mono, 0)) / unit)
    else
      left = capacity - (period_of(shape, utc) <= record[at + 2] and record[at + 3] or 0)
    end
    answer[#answer + 1] = max(left, 0)
  end
  return answer
end
--GUARD
