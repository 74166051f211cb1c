local ok, answer = pcall(decide)
if ok then return answer end
-- The record was not written by Seawall, so the usage is unknown. Everything counts as used until its window has passed, or
-- until an operator deletes the record.
local function is_claim(key)
  local raw = redis.call('GET', key)
  if raw and #raw ~= 22 then error('invalid claim') end
end
for index = 1, args[12] do
  if not pcall(load, KEYS[index]) then
    local record = { 1, mono + 1000, 0, 0, 0, '' }
    for from = 13, last, 5 do
      if args[from] == index then
        local at = #record + 1
        begin(record, at, args[from + 1], args[from + 2])
        take(record, at, args[from + 2], args[from + 3])
      end
    end
    if args[5] == index then
      record[3], record[4] = floor(utc / DAY), args[7]
      record[2] = max(record[2], mono + (record[3] + 1) * DAY - utc + 3600000000)
    end
    save(KEYS[index], record)
  end
end
if #KEYS > args[12] and not pcall(is_claim, KEYS[args[12] + 1]) then
  local claim = 'p' .. args[10] .. pack('>I6I7', 0, mono + args[11])
  redis.call('SET', KEYS[args[12] + 1], claim, 'PX', ttl(args[11]))
end
return { 9, tostring(answer) }
